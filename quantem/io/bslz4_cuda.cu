// The decoder's host side: scratch of each lane, the order of the kernels, and the windows that the first slab asks for.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "quantem/io/bslz4_slab.cuh"
#include "quantem/runtime/cuda_load_area.h"

namespace quantem {
namespace {

using namespace bslz4;

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
  [[nodiscard]] u64 sum() const {
    u64 n = 0;
    for (const u64 part : {stream, steps, n_steps, wide, rest, counters, verdict, seen}) n += AreaPieces::rounded(part);
    return n;
  }
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
  DeviceMemory own_work, valid, order;
  std::vector<Slab> lanes;
  // The windows, from what slabs have shown: bytes for most blocks, and which blocks need a whole one.
  bool planned = false;
  u32 window = kBlockBytes, staged = 4096, n_narrow = 0;
  int multiprocessors = 0;

  Result<Done> plan_windows(const Slab& slab);
};

// Once, after the first slab with a good stream: a window for most blocks, a whole one for those with large values of pixels that the mask
// keeps (those that it drops need no room: bslz4_copy_cuda.cu).
Result<Done> Bslz4Decoder::State::plan_windows(const Slab& slab) {
  std::vector<u32> seen(cut.n_blocks + 1);
  QUANTEM_TRY(context->copy_down(seen.data(), slab.seen, 4ull * seen.size()));
  if (seen.back() == 0) return Done{};  // nothing to learn from: every frame is missing or refused
  std::vector<u32> narrow, large;
  u32 widest = 512;
  for (u32 b = 0; b < cut.n_blocks; ++b) {
    if (seen[b] > kBlockBytes / 2) {
      large.push_back(b);
    } else {
      narrow.push_back(b);
      widest = std::max(widest, seen[b]);
    }
  }
  window = (widest + 15) / 16 * 16;
  n_narrow = static_cast<u32>(narrow.size());
  // A sixteenth of room, or what the chunks to come ask for: longer streams take the slow path, and a scan may begin in vacuum.
  const double longest = seen.back() * std::max(options.growth, 17.0 / 16);
  staged = std::min(static_cast<u32>(std::min(longest, 1e4)) / 16 * 16 + 48, kMostStaged);
  narrow.insert(narrow.end(), large.begin(), large.end());
  planned = true;
  return context->copy_up(order.data(), narrow.data(), 4ull * narrow.size());
}

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
  if (!o.work) {
    QUANTEM_TRY_ASSIGN(memory, context.allocate(work_bytes(o), "work area of the decoder"));
    s.own_work = std::move(memory);
  }
  AreaPieces pieces(o.work ? o.work : s.own_work.data());
  for (Slab& d : s.lanes) {
    d.cut = s.cut;
    d.valid = s.valid.as<u32>();
    pieces.take(d.stream, bytes.stream);
    pieces.take(d.steps, bytes.steps);
    pieces.take(d.n_steps, bytes.n_steps);
    pieces.take(d.wide, bytes.wide);
    pieces.take(d.rest, bytes.rest);
    pieces.take(d.counters, bytes.counters);
    pieces.take(d.verdict, bytes.verdict);
    pieces.take(d.seen, bytes.seen);
    QUANTEM_TRY(context.check(cudaMemset(d.seen, 0, bytes.seen), "decoder"));
  }
  QUANTEM_TRY(context.check(allow_copy(), "decoder"));
  QUANTEM_TRY(context.check(cudaDeviceSynchronize(), "decoder"));  // the streams of the load do not wait for memsets
  return std::unique_ptr<Bslz4Decoder>(new Bslz4Decoder(std::move(state)));
}

Result<Done> Bslz4Decoder::decode(std::uint32_t lane, CudaStream* stream, const void* bytes, const ChunkPlace* chunks,
                                  std::uint32_t n_frames, const PlaneRows& rows, std::uint32_t* verdicts) {
  State& s = *state_;
  Slab d = s.lanes[lane];
  auto* st = reinterpret_cast<cudaStream_t>(stream);
  const auto check = [&](cudaError_t status) { return s.context->check(status, "decode on the device"); };
  d.n_frames = n_frames;
  d.bytes = static_cast<const u8*>(bytes);
  d.chunks = chunks;
  const u64 blocks = (n_frames + kBlockPositions - 1) / kBlockPositions;
  QUANTEM_TRY(check(cudaMemsetAsync(rows.live, 0, blocks * rows.n_segments * kBlockPositions * 4, st)));
  QUANTEM_TRY(check(cudaMemsetAsync(d.counters, 0, 4 * kCounters, st)));
  start_parse(d, st);
  const u32* order = s.order.as<u32>();
  start_copy(d, rows, s.window, s.staged, order, s.n_narrow, st);
  start_copy(d, rows, kBlockBytes, s.staged, order + s.n_narrow, s.cut.n_blocks - s.n_narrow, st);
  start_rest(d, rows, s.staged, static_cast<u32>(s.multiprocessors) * 8, st);
  QUANTEM_TRY(check(cudaGetLastError()));
  QUANTEM_TRY(check(cudaMemcpyAsync(verdicts, d.verdict, 4ull * n_frames, cudaMemcpyDeviceToHost, st)));
  if (s.planned) return Done{};
  QUANTEM_TRY(check(cudaStreamSynchronize(st)));
  return s.plan_windows(d);
}

}  // namespace quantem
