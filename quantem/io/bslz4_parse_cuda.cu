// Where the LZ4 streams of a slab lie, and what each of them says: every bound is checked here, once, and nowhere else.
//
//   index_streams   thread = frame, CTA of 64         1.0 ms: dependent loads of nine length words
//   parse_streams   thread = LZ4 stream, CTA of 128   8.3 ms: latency and divergence (0.17 instructions a scheduler and cycle, 20 of 32
//                   lanes active); the checks are 0.3 ms of it. It hides behind the copy of the other lane's slab.
// Streams q = LZ4 block * n_frames + frame: neighbours are the same block of neighbouring frames, so a warp's streams are alike.

#include <cuda_runtime.h>

#include "quantem/io/bslz4_slab.cuh"

namespace quantem::bslz4 {
namespace {

__device__ __forceinline__ u32 load_be32(const u8* p) {
  return u32{p[0]} << 24 | u32{p[1]} << 16 | u32{p[2]} << 8 | p[3];
}

__global__ void index_streams(Slab s) {
  const u32 f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f >= s.n_frames) return;
  const ChunkPlace chunk = s.chunks[f];
  const u8* p = s.bytes + chunk.offset;
  const Cut& cut = s.cut;
  bool good =
      chunk.bytes >= 12 && load_be32(p) == 0 && load_be32(p + 4) == cut.chunk_bytes && load_be32(p + 8) == kBlockBytes;
  u32 at = 12;
  for (u32 b = 0; b < cut.n_blocks; ++b) {
    u32 n = 0;
    good = good && at + 4 <= chunk.bytes;
    if (good) {
      n = load_be32(p + at);
      at += 4;
      good = n <= chunk.bytes - at;
    }
    s.stream[f * cut.n_blocks + b] = good ? make_uint2(chunk.offset + at, n) : make_uint2(0, 0);
    at += good ? n : 0;
  }
  good = good && at + cut.tail_elements * cut.item_bytes == chunk.bytes;
  s.verdict[f] = chunk.bytes == 0 ? kAbsent : good ? kFine : kRefused;
}

__device__ constexpr u32 period_of(u32 offset) {  // smallest multiple of an offset below 8 that is >= 16
  return 16 + (0x52402000u >> (4 * offset) & 15);
}

// One thread reads one LZ4 stream. Every bound is checked here and nowhere else.
class Parser {
 public:
  __device__ Parser(const Slab& s, u32 q, uint2 where)
      : words_(reinterpret_cast<const u32*>(s.bytes + (where.x & ~3u))),
        list_(s.steps + u64{q / 32} * kSteps * 32 + q % 32),
        shift_(where.x % 4),
        end_(shift_ + where.y),
        // the copy places the stream so that its last 16-byte unit ends where the window begins
        below_(int(where.x % 16) - int((where.x % 16 + where.y + 15) / 16 * 16) - int(shift_)) {}

  // Number of steps (more than kSteps: too many for the list); `good` false when the stream is not exactly `block_bytes`.
  __device__ u32 run(u32 block_bytes, bool& good) {
    u32 ip = shift_ + 1, op = 0;
    const u32 begin = word_at(shift_);
    u32 token = begin & 255, extra = begin >> 8 & 255;  // extra: the byte behind the token
    for (;;) {
      u32 n = token >> 4;
      if (n == 15) {
        n += extra;
        ++ip;
        if (extra == 255) n = long_length(n, ip);
      }
      if (bad_ || ip > end_ || n > end_ - ip || n > block_bytes - op) break;
      const u32 from = u32(below_ + int(ip)) & 0xffff;
      op += n;
      ip += n;
      if (ip >= end_) {  // the last sequence ends behind its literals
        emit_sequence(n, from, 0, 0);
        good = op == block_bytes;
        return count_;
      }
      const u32 head = word_at(ip);  // offset, perhaps a length byte, the next token and a byte
      const u32 offset = head & 0xffff;
      u32 m = token & 15;
      ip += 2;
      token = head >> 16 & 255;
      extra = head >> 24;
      if (m == 15) {
        m += token;
        ++ip;
        if (token == 255) {
          m = long_length(m, ip);
          const u32 w = word_at(ip);
          token = w & 255;
          extra = w >> 8 & 255;
        } else {
          token = extra;
          extra = high_ & 255;
        }
      }
      ++ip;
      m += 4;
      if (bad_ || ip > end_ || offset - 1 >= op || m > block_bytes - op) break;
      emit_sequence(n, from, m, offset);
      op += m;
    }
    good = false;
    return 0;
  }

 private:
  __device__ u32 word_at(u32 at) {  // four bytes, and in high_ at least one more
    const u32 w0 = __ldg(words_ + at / 4), w1 = __ldg(words_ + at / 4 + 1);
    high_ = w1 >> (at % 4 * 8);
    return __funnelshift_r(w0, w1, at % 4 * 8);
  }
  // A length goes on behind a byte 255; four at a time, because the last match of most streams has twenty of them.
  __device__ u32 long_length(u32 n, u32& ip) {
    for (;;) {
      if (ip >= end_) {
        bad_ = true;
        return n;
      }
      const u32 w = word_at(ip);
      if (w == 0xffffffffu) {
        n += 4 * 255;
        ip += 4;
        continue;
      }
      const u32 k = (__ffs(~w) - 1) / 8;
      n += k * 255 + (w >> 8 * k & 255);
      ip += k + 1;
      if (ip > end_) bad_ = true;
      return n;
    }
  }
  __device__ void emit(u32 x, u32 y) {
    if (count_ < kSteps) list_[count_ * 32] = make_uint2(x, y);
    ++count_;
  }
  __device__ void emit_sequence(u32 n, u32 from, u32 m, u32 offset) {
    if (n > 2 * kLanes || m > 2 * kLanes) {
      emit(kLong | n << 16 | from, m | offset << 14);
      return;
    }
    if (n > kLanes) {
      emit(kLanes << 16 | from, 0);
      n -= kLanes;
      from = (from + kLanes) & 0xffff;
    }
    const u32 step = offset >= 8 ? min(offset, kLanes) : kLanes;
    emit(n << 16 | from, min(m, step) | offset << 14 | (offset < 8 ? offset << 29 : 0));
    for (u32 d = step; d < m; d += step) emit(0, min(m - d, step) | (offset >= 8 ? offset : period_of(offset)) << 14);
  }

  const u32* words_;
  uint2* list_;
  u32 shift_, end_;
  int below_;
  u32 count_ = 0, high_ = 0;
  bool bad_ = false;
};

__global__ void __launch_bounds__(128) parse_streams(Slab s) {
  const u32 q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= s.n_frames * s.cut.n_blocks) return;
  const u32 f = q % s.n_frames, b = q / s.n_frames;
  const uint2 where = s.stream[f * s.cut.n_blocks + b];
  bool good = where.y > 0 && where.y <= kLongestStream;
  u32 count = 0;
  if (good) count = Parser(s, q, where).run(s.cut.bytes_of(b), good);
  if (!good) {
    if (s.verdict[f] == kFine) s.verdict[f] = kRefused;  // every writer writes the same
    count = 0;
  }
  if (count > kSteps) {
    s.rest[atomicAdd(s.counters + kRest, 1)] = q;
    count = 0;
  }
  if (good && where.y > s.seen[s.cut.n_blocks]) atomicMax(s.seen + s.cut.n_blocks, where.y);
  s.n_steps[q] = static_cast<u16>(count);
}

}  // namespace

void start_parse(const Slab& slab, cudaStream_t stream) {
  index_streams<<<(slab.n_frames + 63) / 64, 64, 0, stream>>>(slab);
  const u32 n_streams = slab.n_frames * slab.cut.n_blocks;
  parse_streams<<<(n_streams + 127) / 128, 128, 0, stream>>>(slab);
}

}  // namespace quantem::bslz4
