#include "quantem/io/bslz4_cuda.h"

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "quantem/resident/device_bits.cuh"

namespace quantem {
namespace {

using namespace bits;

constexpr u32 kBlockBytes = 8192;     // of an LZ4 block, decoded
constexpr u32 kLongestStream = 8240;  // no valid LZ4 stream of 8192 bytes is longer
constexpr u32 kLanes = 16;            // that copy one stream
constexpr u32 kSteps = 256;           // a stream may have before it takes the slow path

// How a frame is cut: blocks of 8192 bytes, at most one shorter (a multiple of 8 elements), then up to 7 raw elements.
struct Cut {
  u32 n_pixels, item_bits, item_bytes;
  u32 n_blocks;       // LZ4 blocks of a frame, the short one included
  u32 short_bytes;    // of the last block, decoded; 0: the last block is a full one
  u32 tail_elements;  // raw, behind the last block
  u32 chunk_bytes;    // decoded
  __host__ __device__ u32 bytes_of(u32 b) const { return short_bytes && b == n_blocks - 1 ? short_bytes : kBlockBytes; }
  __host__ __device__ u32 plane_bytes_of(u32 b) const { return bytes_of(b) / item_bits; }
};

enum Counter : u32 { kWide, kRest, kCounters };
constexpr u32 kFine = Bslz4Decoder::kFine, kRefused = Bslz4Decoder::kRefused, kAbsent = Bslz4Decoder::kAbsent;

// Scratch of one slab. Stream q = b * n_frames + frame: neighbours in q are alike, so warps stay in step.
struct Slab {
  Cut cut;
  u32 n_frames;
  const u8* bytes;           // compressed chunks as in the file
  const ChunkPlace* chunks;  // [frame]
  uint2* stream;             // [frame][n_blocks] {first byte, bytes}
  uint2* steps;              // [q / 32][kSteps][q % 32]
  u16* n_steps;              // [q]
  u32 *wide, *rest;          // streams with ones beyond the window; streams too long for the copy
  u32* counters;             // [kCounters]
  u32* verdict;              // [frame]
  u32* seen;                 // [n_blocks + 1] bytes of window that a block needs; longest stream
  const u32* valid;          // a row of pixel mask
};

// --------------------------------------------------------------------------------------------------------------- index
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

// --------------------------------------------------------------------------------------------------------------- parse
// A step tells 16 lanes what to copy: literals, then a match.
//   x: 31 long step, 30..16 literals, 15..0 where they are relative to the window, signed (the compressed bytes lie below it)
//   y: 31..29 period of a match that repeats within 8 bytes (0: it does not), 26..14 offset, 13..0 match bytes
// A short step has at most 16 literals and 16 match bytes and overlaps its source by `period` only; what is longer is split here up to
// 32 bytes. A long step may be anything.
constexpr u32 kLong = 0x80000000u;
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

// ---------------------------------------------------------------------------------------------------------------- copy
// Writes the planes of a finished window that hold a one, after the pixel mask. G lanes a stream; all 32 lanes of the warp come here.
// Whole blocks of whole words: 16 bytes at a time.
template <u32 G>
__device__ __forceinline__ void store_whole(const Slab& s, const PlaneRows& rows, const u8* win, u32 window, u32 b,
                                            u32 f, bool store) {
  const u32 l = threadIdx.x % G, group = G == 32 ? ~0u : 0xffffu << (threadIdx.x % 32 / G * G);
  const u32 plane_bytes = kBlockBytes / s.cut.item_bits, units = plane_bytes / 16, first_word = b * (plane_bytes / 4);
  const uint4* mask = reinterpret_cast<const uint4*>(s.valid + first_word);
  const u64 block = f / kBlockPositions, position = f % kBlockPositions;
  u32 live = 0, top = 0;
  for (u32 p = 0; p * plane_bytes < window; ++p) {
    const uint4* from = reinterpret_cast<const uint4*>(win + p * plane_bytes);
    u32 any = 0, raw = 0;
    for (u32 u = l; u < units; u += G) {
      const uint4 v = from[u], m = __ldg(mask + u);
      raw |= v.x | v.y | v.z | v.w;
      any |= (v.x & m.x) | (v.y & m.y) | (v.z & m.z) | (v.w & m.w);
    }
    if (__ballot_sync(~0u, store && raw) & group) top = p + 1;
    if (!(__ballot_sync(~0u, store && any) & group))
      continue;  // the ballots are above: every lane reaches the next ones
    live |= 1u << p;
    uint4* to = reinterpret_cast<uint4*>(
        rows.words + ((block * rows.n_planes + p) * kBlockPositions + position) * rows.row_words + first_word);
    for (u32 u = l; u < units; u += G) {
      const uint4 v = from[u], m = __ldg(mask + u);
      to[u] = make_uint4(v.x & m.x, v.y & m.y, v.z & m.z, v.w & m.w);
    }
  }
  if (l == 0 && store) {
    const u32 segments = max(1u, plane_bytes / 4 / kSegmentWords);
    for (u32 i = 0; i < segments; ++i)
      rows.live[(block * rows.n_segments + first_word / kSegmentWords + i) * kBlockPositions + position] = live;
    if (top * plane_bytes > s.seen[b]) atomicMax(s.seen + b, top * plane_bytes);
  }
  __syncwarp();
}

// The last block of a frame when it is a short one or raw elements follow: planes begin at any byte, words are put together one by one.
template <u32 G>
__device__ __noinline__ void store_last(const Slab& s, const PlaneRows& rows, const u8* win, u32 window, u32 b, u32 f,
                                        bool store) {
  const u32 l = threadIdx.x % G;
  const Cut& cut = s.cut;
  const u32 plane_bytes = cut.plane_bytes_of(b), first_word = b * (kBlockBytes / cut.item_bits / 4),
            n_words = (cut.n_pixels + 31) / 32 - first_word;
  const u64 block = f / kBlockPositions, position = f % kBlockPositions;
  const u8* tail = s.bytes + s.chunks[f].offset + s.chunks[f].bytes - cut.tail_elements * cut.item_bytes;
  for (u32 p = 0; p < cut.item_bits && store; ++p) {
    u32* to = rows.words + ((block * rows.n_planes + p) * kBlockPositions + position) * rows.row_words + first_word;
    for (u32 w = l; w < n_words; w += G) {
      u32 word = 0;
      for (u32 i = 0; i < 4; ++i)
        if (const u32 at = 4 * w + i; at < plane_bytes && p * plane_bytes + at < window)
          word |= u32{win[p * plane_bytes + at]} << 8 * i;
      for (u32 e = 0; e < cut.tail_elements; ++e) {
        const u32 pixel = cut.n_pixels - cut.tail_elements + e - first_word * 32;
        if (pixel / 32 == w) word |= u32{tail[e * cut.item_bytes + p / 8]} >> p % 8 & 1 ? 1u << pixel % 32 : 0;
      }
      if (const u32 need = min(kBlockBytes, ((p + 1) * plane_bytes + 15) / 16 * 16); word && need > s.seen[b])
        atomicMax(s.seen + b, need);
      word &= s.valid[first_word + w];
      to[w] = word;
      if (word)
        atomicOr(rows.live + (block * rows.n_segments + (first_word + w) / kSegmentWords) * kBlockPositions + position,
                 1u << p);
    }
  }
  __syncwarp();
}

template <u32 G>
__device__ __forceinline__ void store_planes(const Slab& s, const PlaneRows& rows, const u8* win, u32 window, u32 b,
                                             u32 f, bool store) {
  const bool last = b == s.cut.n_blocks - 1 && (s.cut.short_bytes || s.cut.tail_elements);
  if (__any_sync(~0u, store && last)) store_last<G>(s, rows, win, window, b, f, store && last);
  if (__any_sync(~0u, store && !last)) store_whole<G>(s, rows, win, window, b, f, store && !last);
}

// 16 lanes a stream, two streams a warp in step: every branch of the loop is taken by a whole warp. Per stream in shared memory: the
// compressed bytes, ending where the window begins, and the window, zeroed: zeros need no copy.
// `blocks`: the LZ4 blocks of this launch (null: the streams of s.wide). Ones beyond the window: to s.wide. Too many bytes: to s.rest.
__global__ void copy_steps(Slab s, PlaneRows rows, int window, u32 staged, const u32* __restrict__ blocks,
                           u32 n_blocks) {
  constexpr int G = kLanes;
  extern __shared__ uint4 shared4[];
  const int l = threadIdx.x % G;
  const u32 group = 0xffffu << (threadIdx.x % 32 / G * G);
  u8* const win = reinterpret_cast<u8*>(shared4) + (threadIdx.x / G) * (staged + window + 32) + staged + 16;
  u32* const win32 = reinterpret_cast<u32*>(win);
  uint4* const win128 = reinterpret_cast<uint4*>(win);
  const u32 per_cta = blockDim.x / G, n_streams = blocks ? s.n_frames * n_blocks : s.counters[kWide];
  u32 remainders = u32(l);  // nibble p: l % p; nibble 0: l
#pragma unroll
  for (u32 p = 1; p < 8; ++p) remainders |= (u32(l) % p) << (4 * p);
  for (u32 first = blockIdx.x * per_cta; first < n_streams; first += gridDim.x * per_cta) {
    const u32 id = first + threadIdx.x / G;
    u32 b = 0, f = 0, n = 0;
    if (id < n_streams) {
      const u32 wide = blocks ? 0 : s.wide[id];
      b = blocks ? blocks[id / s.n_frames] : wide / s.n_frames;
      f = blocks ? id % s.n_frames : wide % s.n_frames;
      n = s.verdict[f] == kFine ? s.n_steps[b * s.n_frames + f] : 0;  // a frame counts whole or not at all
    }
    const u32 q = b * s.n_frames + f;
    const uint2 where = s.stream[f * s.cut.n_blocks + b];
    const int block_bytes = int(s.cut.bytes_of(b));
    if (where.y > staged - 16 && n) {
      n = 0;
      if (l == 0) s.rest[atomicAdd(s.counters + kRest, 1)] = q;
    }
    const int units = n ? int(where.x % 16 + where.y + 15) / 16 : 0;
    const uint4* from4 = reinterpret_cast<const uint4*>(s.bytes + (where.x - where.x % 16));
    for (int i = l; i < units; i += G) __pipeline_memcpy_async(win128 - units + i, from4 + i, 16);
    __pipeline_commit();
    for (int i = l; i <= window / 16; i += G) win128[i] = make_uint4(0, 0, 0, 0);
    const uint2* list = s.steps + u64{q / 32} * kSteps * 32 + q % 32;
    const u32 longest = __reduce_max_sync(~0u, n);
    uint2 cache = l < n ? __ldcs(list + l * 32) : make_uint2(0, 0);
    __pipeline_wait_prior(0);
    __syncwarp();

    int op = 0;
    u32 beyond = 0;  // a one that did not fit
    const auto put = [&](int at, u32 v) {
      if (at < window)
        win[at] = u8(v);
      else
        beyond |= v;
    };
    for (u32 i0 = 0; i0 < longest; i0 += G) {
      const uint2 ahead = i0 + G + l < n ? __ldcs(list + (i0 + G + l) * 32) : make_uint2(0, 0);
      u32 next_x = __shfl_sync(~0u, cache.x, 0, G), next_y = __shfl_sync(~0u, cache.y, 0, G);
#pragma unroll 2
      for (int j = 0; j < G; ++j) {
        const u32 x = next_x, y = next_y;
        next_x = __shfl_sync(~0u, cache.x, j + 1, G);
        next_y = __shfl_sync(~0u, cache.y, j + 1, G);
        const int from = int(short(x & 0xffff)), m = int(y & 0x3fff), offset = int(y >> 14 & 0x1fff);
        if (!__any_sync(~0u, (x | u32(window - 32 - op)) & kLong)) {  // no long step, and nothing near the window's end
          const int n_literals = int(x >> 16);
          if (l < n_literals) win[op + l] = win[from + l];
          op += n_literals;
          __syncwarp();
          const int r = int(__funnelshift_r(remainders, 0, y >> 27) & 15);
          if (l < m) win[op + l] = win[op - offset + r];
          op += m;
        } else {
          const int n_literals = int(x >> 16 & 0x7fff);
          for (int done = 0; __any_sync(~0u, done < n_literals);) {
            if (done >= 4 && done + 16 <= n_literals) {  // words; the first may repeat bytes just written
              const int w = (op + done) / 4 + l, at = 4 * w - op + from;
              if (4 * w + 4 <= op + n_literals) {
                const u32 v = __funnelshift_r(win32[at >> 2], win32[(at >> 2) + 1], (at & 3) * 8);
                if (4 * w < window)
                  win32[w] = v;
                else
                  beyond |= v;
              }
              done = min(((op + done) / 4 + G) * 4, (op + n_literals) / 4 * 4) - op;
            } else {
              if (done + l < n_literals) put(op + done + l, win[from + done + l]);
              done += G;
            }
          }
          op += n_literals;
          __syncwarp();
          const int src = op - offset, period = offset >= G ? offset : offset ? (G + offset - 1) / offset * offset : 0;
          const int r = offset && offset < G ? l % offset : l;
          int done = src >= window ? m : 0;  // everything beyond the window is zero
          u32 seen = 0;
          while (__any_sync(~0u, done < m)) {
            const bool zero = !(__ballot_sync(~0u, seen != 0) & group);
            if (zero && done && done >= offset) done = m;  // a whole period of zeros: so is the rest
            if (done && period % 16 == 0 && period >= 16 * G + 16 && done + 64 <= m) {
              const int u = (op + done) / 16 + l,
                        at = u - period / 16;  // a bad pixel: one byte in every plane, period 512
              if (16 * u + 16 <= op + m) {
                const uint4 v = 16 * at < window ? win128[at] : make_uint4(0, 0, 0, 0);
                const u32 any = v.x | v.y | v.z | v.w;
                if (16 * u < window)
                  win128[u] = v;
                else
                  beyond |= any;
                seen |= any;
              }
              done = min(((op + done) / 16 + G) * 16, (op + m) / 16 * 16) - op;
            } else if (done && period >= 4 * G + 4 && done + 4 * G <= m) {
              const int w = (op + done) / 4 + l, at = 4 * w - period;
              const u32 v = at < window ? __funnelshift_r(win32[at >> 2], win32[(at >> 2) + 1], (at & 3) * 8) : 0;
              if (4 * w < window)
                win32[w] = v;
              else
                beyond |= v;
              seen |= v;
              done = ((op + done) / 4 + G) * 4 - op;
            } else {
              if (done + l < m) {
                const int at = done ? op + done + l - period : src + r;
                const u32 v = at < window ? win[at] : 0;
                put(op + done + l, v);
                seen |= v;
              }
              done += G;
            }
            __syncwarp();
          }
          op += m;
          if (op == block_bytes) op = 0;  // finished: no reason to come here again
        }
        __syncwarp();
      }
      cache = ahead;
    }
    const bool overflow = __ballot_sync(~0u, beyond != 0) & group;
    if (overflow && l == 0) s.wide[atomicAdd(s.counters + kWide, 1)] = q;
    store_planes<kLanes>(s, rows, win, u32(window), b, f, n && !overflow);
  }
}

// The few streams that are too long for the copy, straight from global memory: warp = stream. parse_streams has checked them.
__global__ void copy_rest(Slab s, PlaneRows rows) {
  __shared__ uint4 window4[kBlockBytes / 16];
  u8* const win = reinterpret_cast<u8*>(window4);
  const u32 lane = threadIdx.x;
  for (u32 i = blockIdx.x; i < s.counters[kRest]; i += gridDim.x) {
    const u32 q = s.rest[i], b = q / s.n_frames, f = q % s.n_frames;
    const uint2 where = s.stream[f * s.cut.n_blocks + b];
    const u8* in = s.bytes + where.x;
    const bool whole = s.verdict[f] == kFine;
    for (u32 ip = 0, op = 0; whole;) {
      const u32 token = in[ip++];
      u32 n = token >> 4, m = token & 15, more = n == 15;
      while (more) {
        const u32 x = in[ip++];
        n += x;
        more = x == 255;
      }
      for (u32 k = lane; k < n; k += 32) win[op + k] = in[ip + k];
      __syncwarp();
      op += n;
      ip += n;
      if (ip >= where.y) break;
      const u32 offset = in[ip] | u32{in[ip + 1]} << 8;
      ip += 2;
      more = m == 15;
      while (more) {
        const u32 x = in[ip++];
        m += x;
        more = x == 255;
      }
      m += 4;
      for (u32 k = lane; k < m; k += 32) win[op + k] = win[op - offset + k % offset];
      __syncwarp();
      op += m;
    }
    store_planes<32>(s, rows, win, kBlockBytes, b, f, whole);
  }
}

__global__ void clear_refused(Slab s, PlaneRows rows) {
  const u32 f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f < s.n_frames && s.verdict[f] != kFine) atomicAnd(rows.present + f / 32, ~(1u << f % 32));
}

Cut cut_of(u32 n_pixels, u32 item_bits) {
  Cut cut{n_pixels, item_bits, item_bits / 8, 0, 0, n_pixels % 8, n_pixels * (item_bits / 8)};
  const u32 per_block = kBlockBytes / cut.item_bytes, rest = n_pixels % per_block / 8 * 8;
  cut.short_bytes = rest * cut.item_bytes;
  cut.n_blocks = n_pixels / per_block + (rest ? 1 : 0);
  return cut;
}

// Sizes of one lane's scratch, in bytes.
struct SlabBytes {
  u64 stream, steps, n_steps, wide, rest, counters, verdict, seen;
  [[nodiscard]] u64 sum() const { return stream + steps + n_steps + wide + rest + counters + verdict + seen; }
};
SlabBytes slab_bytes(const Cut& cut, u64 frames) {
  const u64 q = (frames * cut.n_blocks + 31) / 32 * 32;
  return {8 * q, 8 * q * kSteps, 2 * q, 4 * q, 8 * q, 64, 4 * frames, 4 * (u64{cut.n_blocks} + 1)};
}

}  // namespace

struct Bslz4Decoder::State {
  CudaContext* context = nullptr;
  Options options;
  Cut cut{};
  DeviceMemory valid, order;
  struct OneLane {
    std::vector<DeviceMemory> memory;
    Slab slab{};
  };
  std::vector<OneLane> lanes;
  // The windows, from what slabs have shown: bytes for most blocks, and which blocks need a whole one.
  bool planned = false;
  u32 window = kBlockBytes, staged = 4096, n_narrow = 0;
  int multiprocessors = 0;
};

Bslz4Decoder::Bslz4Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bslz4Decoder::~Bslz4Decoder() = default;

bool Bslz4Decoder::supports(std::uint32_t n_pixels, std::uint32_t item_bits) {
  return n_pixels >= 8 && n_pixels < 1u << 23 && (item_bits == 8 || item_bits == 16 || item_bits == 32);
}

std::uint64_t Bslz4Decoder::work_bytes(const Options& o) {
  return o.n_lanes * slab_bytes(cut_of(o.n_pixels, o.item_bits), o.max_frames).sum();
}

Result<std::unique_ptr<Bslz4Decoder>> Bslz4Decoder::make(CudaContext& context, const Options& o) {
  if (!supports(o.n_pixels, o.item_bits))
    return Error{Code::unsupported, "cuda: frames of " + std::to_string(o.n_pixels) + " pixels are decoded on the CPU"};
  auto state = std::make_unique<State>();
  State& s = *state;
  s.context = &context;
  s.options = o;
  s.cut = cut_of(o.n_pixels, o.item_bits);
  s.multiprocessors = context.multiprocessors();
  const u64 row_bytes = 4ull * row_words_of(o.n_pixels);
  QUANTEM_TRY_ASSIGN(valid, context.allocate(row_bytes, "pixel mask"));
  s.valid = std::move(valid);
  QUANTEM_TRY(context.check(cudaMemset(s.valid.data(), 0, row_bytes), "pixel mask"));
  QUANTEM_TRY(context.copy_up(s.valid.data(), o.valid_pixels.words().data(), (o.valid_pixels.count() + 31) / 32 * 4));
  QUANTEM_TRY_ASSIGN(order, context.allocate(4ull * s.cut.n_blocks, "block order"));
  s.order = std::move(order);
  std::vector<u32> natural(s.cut.n_blocks);
  for (u32 b = 0; b < s.cut.n_blocks; ++b) natural[b] = b;
  QUANTEM_TRY(context.copy_up(s.order.data(), natural.data(), 4ull * natural.size()));
  const SlabBytes bytes = slab_bytes(s.cut, o.max_frames);
  s.lanes.resize(o.n_lanes);
  for (State::OneLane& l : s.lanes) {
    const auto set = [&](auto*& pointer, u64 n_bytes) -> Result<Done> {
      QUANTEM_TRY_ASSIGN(memory, context.allocate(n_bytes, "work area of the decoder"));
      l.memory.push_back(std::move(memory));
      pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(l.memory.back().data());
      return Done{};
    };
    Slab& d = l.slab;
    d.cut = s.cut;
    d.valid = s.valid.as<u32>();
    QUANTEM_TRY(set(d.stream, bytes.stream));
    QUANTEM_TRY(set(d.steps, bytes.steps));
    QUANTEM_TRY(set(d.n_steps, bytes.n_steps));
    QUANTEM_TRY(set(d.wide, bytes.wide));
    QUANTEM_TRY(set(d.rest, bytes.rest));
    QUANTEM_TRY(set(d.counters, bytes.counters));
    QUANTEM_TRY(set(d.verdict, bytes.verdict));
    QUANTEM_TRY(set(d.seen, bytes.seen));
    QUANTEM_TRY(context.check(cudaMemset(d.seen, 0, bytes.seen), "decoder"));
  }
  QUANTEM_TRY(context.check(
      cudaFuncSetAttribute(copy_steps, cudaFuncAttributeMaxDynamicSharedMemorySize, 2 * (kBlockBytes + 8448 + 32)),
      "decoder"));
  return std::unique_ptr<Bslz4Decoder>(new Bslz4Decoder(std::move(state)));
}

Result<Done> Bslz4Decoder::decode(std::uint32_t lane, CudaStream* stream, const void* bytes, const ChunkPlace* chunks,
                                  std::uint32_t n_frames, const PlaneRows& rows, std::uint32_t* verdicts) {
  State& s = *state_;
  Slab d = s.lanes[lane].slab;
  auto* st = reinterpret_cast<cudaStream_t>(stream);
  const auto check = [&](cudaError_t status) { return s.context->check(status, "decode on the device"); };
  d.n_frames = n_frames;
  d.bytes = static_cast<const u8*>(bytes);
  d.chunks = chunks;
  const u64 blocks = (n_frames + kBlockPositions - 1) / kBlockPositions;
  QUANTEM_TRY(check(cudaMemsetAsync(rows.live, 0, blocks * rows.n_segments * kBlockPositions * 4, st)));
  QUANTEM_TRY(check(cudaMemsetAsync(d.counters, 0, 4 * kCounters, st)));
  index_streams<<<(n_frames + 63) / 64, 64, 0, st>>>(d);
  const u32 n_streams = n_frames * s.cut.n_blocks;
  parse_streams<<<(n_streams + 127) / 128, 128, 0, st>>>(d);
  const u32* order = s.order.as<u32>();
  const auto shared = [&](u32 window) { return 2 * (window + s.staged + 32); };
  if (s.n_narrow)
    copy_steps<<<(n_frames * s.n_narrow + 1) / 2, 32, shared(s.window), st>>>(d, rows, int(s.window), s.staged, order,
                                                                              s.n_narrow);
  if (const u32 n_large = s.cut.n_blocks - s.n_narrow)
    copy_steps<<<(n_frames * n_large + 1) / 2, 32, shared(kBlockBytes), st>>>(d, rows, kBlockBytes, s.staged,
                                                                              order + s.n_narrow, n_large);
  copy_steps<<<s.multiprocessors * 8, 32, shared(kBlockBytes), st>>>(d, rows, kBlockBytes, s.staged, nullptr, 0);
  copy_rest<<<s.multiprocessors * 8, 32, 0, st>>>(d, rows);
  clear_refused<<<(n_frames + 255) / 256, 256, 0, st>>>(d, rows);
  QUANTEM_TRY(check(cudaGetLastError()));
  QUANTEM_TRY(check(cudaMemcpyAsync(verdicts, d.verdict, 4ull * n_frames, cudaMemcpyDeviceToHost, st)));
  if (s.planned) return Done{};
  // Once, after the first slab: a window for most blocks, a whole one for those with a large value (a bad pixel at 65535).
  QUANTEM_TRY(check(cudaStreamSynchronize(st)));
  std::vector<u32> seen(s.cut.n_blocks + 1);
  QUANTEM_TRY(s.context->copy_down(seen.data(), d.seen, 4ull * seen.size()));
  std::vector<u32> narrow, large;
  u32 window = 512;
  for (u32 b = 0; b < s.cut.n_blocks; ++b) {
    if (seen[b] > kBlockBytes / 2) {
      large.push_back(b);
    } else {
      narrow.push_back(b);
      window = std::max(window, seen[b]);
    }
  }
  s.window = (window + 15) / 16 * 16;
  s.n_narrow = static_cast<u32>(narrow.size());
  s.staged = std::min(seen[s.cut.n_blocks] * 17 / 16 / 16 * 16 + 48,
                      8448u);  // a little room: longer streams take the slow path
  narrow.insert(narrow.end(), large.begin(), large.end());
  s.planned = true;
  return s.context->copy_up(s.order.data(), narrow.data(), 4ull * narrow.size());
}

}  // namespace quantem
