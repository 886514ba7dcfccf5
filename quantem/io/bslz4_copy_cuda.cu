// Steps -> decoded LZ4 blocks -> bit planes. A bitshuffled block is its bit planes already, so nothing is un-shuffled: after the copy the
// planes that hold a one are written, pixel mask applied, and the others cost nothing.
//
//   copy_steps      16 lanes = LZ4 stream, CTA of one warp, two windows in shared memory   11.5 ms, bound by issue (68 % of slots;
//                   DRAM 14 %); shared memory allows 22 warps an SM, so the window is as small as the data permit
//   copy_rest       warp = stream, in a window of its own; for the few that copy_steps leaves
//   clear_refused   thread = frame

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "quantem/io/bslz4_slab.cuh"

namespace quantem::bslz4 {
namespace {

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
    u32 any = 0;
    for (u32 u = l; u < units; u += G) {
      const uint4 v = from[u], m = __ldg(mask + u);
      any |= (v.x & m.x) | (v.y & m.y) | (v.z & m.z) | (v.w & m.w);
    }
    if (!(__ballot_sync(~0u, store && any) & group)) continue;  // above: every lane reaches the next ballot
    top = p + 1;
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
      word &= s.valid[first_word + w];
      if (const u32 need = min(kBlockBytes, ((p + 1) * plane_bytes + 15) / 16 * 16); word && need > s.seen[b])
        atomicMax(s.seen + b, need);
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

// What a block says beyond its window. The window holds every plane in which the first slab had ones, so nearly always there are only
// zeros, and bits of pixels that the mask drops: those are let go of, though a bad pixel at 65535 has a one in every plane. What a match
// copies from there is zero where the mask keeps all eight pixels of a byte; elsewhere it is not known, and matters only when it is
// copied to other pixels. `lost`: a kept one had no room, or something unknown was copied. Then the stream gets a whole window.
struct Beyond {
  const u8* valid;  // the mask, from the block's first pixel on
  int window, plane_bytes;
  bool strict = false;  // nothing may be let go of
  u32 lost = 0;

  __device__ u32 kept(int at) const { return valid[at % plane_bytes]; }
  __device__ void drop(int at, u32 byte) {
    if (byte) lost |= strict ? byte : byte & kept(at);
  }
  __device__ void drop_word(int at, u32 word) {
    for (int i = 0; word && i < 4; ++i) drop(at + i, word >> 8 * i & 255);
  }
  __device__ void put(u8* win, int at, u32 v) {
    if (at < window)
      win[at] = u8(v);
    else
      drop(at, v);
  }
};

// n literals of any number, 16 bytes a turn, then words.
__device__ __forceinline__ void copy_literals(u8* win, int l, int op, int from, int n_literals, Beyond& beyond) {
  constexpr int G = kLanes;
  u32* const win32 = reinterpret_cast<u32*>(win);
  for (int done = 0; __any_sync(~0u, done < n_literals);) {
    if (done >= 4 && done + 16 <= n_literals) {  // words; the first may repeat bytes just written
      const int w = (op + done) / 4 + l, at = 4 * w - op + from;
      if (4 * w + 4 <= op + n_literals) {
        const u32 v = __funnelshift_r(win32[at >> 2], win32[(at >> 2) + 1], (at & 3) * 8);
        if (4 * w < beyond.window)
          win32[w] = v;
        else
          beyond.drop_word(4 * w, v);
      }
      done = min(((op + done) / 4 + G) * 4, (op + n_literals) / 4 * 4) - op;
    } else {
      if (done + l < n_literals) beyond.put(win, op + done + l, win[from + done + l]);
      done += G;
    }
  }
}

// A match of any length and offset: 16 bytes a turn; words or 16-byte units where the source lies far enough behind.
__device__ __forceinline__ void copy_match(u8* win, int l, u32 group, int op, int m, int offset, Beyond& beyond) {
  constexpr int G = kLanes;
  u32* const win32 = reinterpret_cast<u32*>(win);
  uint4* const win128 = reinterpret_cast<uint4*>(win);
  const int src = op - offset, window = beyond.window,
            period = offset >= G ? offset
                     : offset    ? (G + offset - 1) / offset * offset
                                 : 0;
  const int r = offset && offset < G ? l % offset : l;
  if (op + m > window && offset % beyond.plane_bytes) {  // from pixels to others
    for (int i = l; i < min(m, offset); i += G)
      if (src + i >= window) beyond.lost |= beyond.kept(src + i) ^ 255;
    // A match that repeats copies again what it has just written: nothing of that may be let go of.
    if (m > offset) beyond.strict = true;
  }
  int done = src >= window ? m : 0;  // zeros, or bits that the mask drops
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
        else if (any) {
          beyond.drop_word(16 * u, v.x), beyond.drop_word(16 * u + 4, v.y);
          beyond.drop_word(16 * u + 8, v.z), beyond.drop_word(16 * u + 12, v.w);
        }
        seen |= any;
      }
      done = min(((op + done) / 16 + G) * 16, (op + m) / 16 * 16) - op;
    } else if (done && period >= 4 * G + 4 && done + 4 * G <= m) {
      const int w = (op + done) / 4 + l, at = 4 * w - period;
      const u32 v = at < window ? __funnelshift_r(win32[at >> 2], win32[(at >> 2) + 1], (at & 3) * 8) : 0;
      if (4 * w < window)
        win32[w] = v;
      else
        beyond.drop_word(4 * w, v);
      seen |= v;
      done = ((op + done) / 4 + G) * 4 - op;
    } else {
      if (done + l < m) {
        const int at = done ? op + done + l - period : src + r;
        const u32 v = at < window ? win[at] : 0;
        beyond.put(win, op + done + l, v);
        seen |= v;
      }
      done += G;
    }
    __syncwarp();
  }
  beyond.strict = false;
}

// 16 lanes a stream, two streams a warp in step: every branch of the loop is taken by a whole warp. Per stream in shared memory: the
// compressed bytes, ending where the window begins, and the window, zeroed: zeros need no copy.
// `blocks`: the LZ4 blocks of this launch (null: the streams of s.wide). Something lost beyond the window: to s.wide. Too many bytes: to s.rest.
__global__ void copy_steps(Slab s, PlaneRows rows, int window, u32 staged, const u32* __restrict__ blocks,
                           u32 n_blocks) {
  constexpr int G = kLanes;
  extern __shared__ uint4 shared4[];
  const int l = threadIdx.x % G;
  const u32 group = 0xffffu << (threadIdx.x % 32 / G * G);
  u8* const win = reinterpret_cast<u8*>(shared4) + (threadIdx.x / G) * (staged + window + 32) + staged + 16;
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
    Beyond beyond{reinterpret_cast<const u8*>(s.valid) + b * (kBlockBytes / s.cut.item_bits), window,
                  int(s.cut.plane_bytes_of(b))};
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
          copy_literals(win, l, op, from, n_literals, beyond);
          op += n_literals;
          __syncwarp();
          copy_match(win, l, group, op, m, offset, beyond);
          op += m;
          if (op == block_bytes) op = 0;  // finished: no reason to come here again
        }
        __syncwarp();
      }
      cache = ahead;
    }
    const bool overflow = __ballot_sync(~0u, beyond.lost != 0) & group;
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

constexpr u32 shared_bytes(u32 window, u32 staged) {
  return 2 * (window + staged + 32);
}

}  // namespace

cudaError_t allow_copy() {
  return cudaFuncSetAttribute(copy_steps, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(shared_bytes(kBlockBytes, kMostStaged)));
}

void start_copy(const Slab& slab, const PlaneRows& rows, u32 window, u32 staged, const u32* order, u32 n_blocks,
                cudaStream_t stream) {
  if (n_blocks == 0) return;
  copy_steps<<<(slab.n_frames * n_blocks + 1) / 2, 32, shared_bytes(window, staged), stream>>>(slab, rows, int(window),
                                                                                               staged, order, n_blocks);
}

void start_rest(const Slab& slab, const PlaneRows& rows, u32 staged, u32 n_ctas, cudaStream_t stream) {
  copy_steps<<<n_ctas, 32, shared_bytes(kBlockBytes, staged), stream>>>(slab, rows, kBlockBytes, staged, nullptr, 0);
  copy_rest<<<n_ctas, 32, 0, stream>>>(slab, rows);
  clear_refused<<<(slab.n_frames + 255) / 256, 256, 0, stream>>>(slab, rows);
}

}  // namespace quantem::bslz4
