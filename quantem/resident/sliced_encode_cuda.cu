// The device encoder's host side: memory of the volume and of the slabs in work, and what is queued in which order.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "quantem/resident/sliced_encode.cuh"
#include "quantem/runtime/cuda_load_area.h"

namespace quantem {
namespace {

using namespace sliced_encode;

// Everything of one lane.
struct Lane {
  PlaneRows rows;
  Slices pixels, tiles;
  u16* cut;       // [block][stream]: width | listed << 6
  uint2* groups;  // [block][32 streams]: planes, listed bits
  uint2* totals;  // [block]: the same
};

// Device bytes of one lane, by part.
struct LaneBytes {
  std::uint64_t words, live, present, pixel_planes, pixel_counts, pixel_used, tile_planes, tile_counts, tile_used, cut,
      groups, totals;
  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t n = 0;
    for (const std::uint64_t part : {words, live, present, pixel_planes, pixel_counts, pixel_used, tile_planes,
                                     tile_counts, tile_used, cut, groups, totals})
      n += AreaPieces::rounded(part);
    return n;
  }
};
LaneBytes lane_bytes(const SlicedDeviceBuilder::Options& o) {
  const std::uint64_t blocks = o.slab_blocks, px = o.layout.n_pixels, tiles = o.layout.n_streams - px,
                      planes = o.item_bits, tile_planes = o.item_bits + 15, words = row_words_of(o.layout.n_pixels);
  return {blocks * planes * kBlockPositions * words * 4,
          blocks * ((words + kSegmentWords - 1) / kSegmentWords) * kBlockPositions * 4,
          blocks * kWords * 4,
          blocks * px * planes * kPlaneBytes,
          blocks * px * planes * 2,
          blocks * px * 8,
          blocks * tiles * tile_planes * kPlaneBytes,
          blocks * tiles * tile_planes * 2,
          blocks * tiles * 8,
          blocks * o.layout.n_streams * 2,
          blocks * group_bytes(o.layout.n_streams),
          blocks * 8};
}

constexpr std::uint64_t kFlaggedCapacity = std::uint64_t{1} << 20;

}  // namespace

struct SlicedDeviceBuilder::State {
  CudaContext* context = nullptr;
  Options options;
  Geometry geometry{};
  std::shared_ptr<SlicedDevice> volume;
  std::uint64_t n_padded_blocks = 0;
  DeviceMemory own_work, stream_of_pixel, valid, totals, max_key, flagged;
  std::uint64_t flagged_capacity = 0;
  struct OneLane {
    Lane lane{};
    cudaStream_t stream = nullptr;
    cudaEvent_t offsets_done = nullptr;
    uint2* host_totals = nullptr;         // pinned
    std::uint64_t* host_bases = nullptr;  // pinned: plane bases, then list bases, of the slab
    std::uint64_t first_block = 0;
    std::uint32_t n_blocks = 0;  // 0: nothing to place
  };
  std::vector<OneLane> lanes;
  // What is free of the last segment and, of those before it, the largest piece.
  struct Rest {
    char* data = nullptr;
    std::uint64_t n_bytes = 0;
  };
  Rest last, spare;
  std::uint64_t bytes_placed = 0, blocks_placed = 0;

  ~State() {
    for (OneLane& l : lanes) {
      if (l.stream) cudaStreamSynchronize(l.stream), cudaStreamDestroy(l.stream);
      if (l.offsets_done) cudaEventDestroy(l.offsets_done);
      cudaFreeHost(l.host_totals);
      cudaFreeHost(l.host_bases);
    }
  }
  [[nodiscard]] std::uint32_t n_streams() const { return options.layout.n_streams; }
  [[nodiscard]] Directory directory() const {
    return {volume->directory.as<u32>(), volume->list_end.as<u16>(), volume->list_start.as<u32>()};
  }

  Result<Done> zeroed(DeviceMemory& to, std::uint64_t n_bytes, const char* what) const;
  Result<Done> allocate_volume();  // all but planes and lists
  Result<Done> allocate_inputs();  // pixel order, mask, audit
  Result<Done> make_lane(OneLane& lane, const LaneBytes& bytes, AreaPieces& pieces) const;
  Result<std::uint64_t> room(
      std::uint64_t n_bytes);  // for planes or lists of the block that is placed next; its address
  Result<std::uint64_t> read_audit(DeviceAudit& audit) const;
};

Result<Done> SlicedDeviceBuilder::State::zeroed(DeviceMemory& to, std::uint64_t n_bytes, const char* what) const {
  QUANTEM_TRY_ASSIGN(memory, context->allocate(n_bytes, what));
  to = std::move(memory);
  return context->check(cudaMemset(to.data(), 0, n_bytes), what);
}

Result<Done> SlicedDeviceBuilder::State::allocate_volume() {
  const SlicedLayout& layout = options.layout;
  geometry = {layout.det.rows, layout.det.cols,  layout.n_pixels,    layout.tiles8.cols, layout.tiles32.cols,
              layout.n_tiles8, layout.n_tiles32, layout.tiles4.rows, layout.tiles4.cols};
  const std::uint64_t n_blocks = (options.n_positions + kBlockPositions - 1) / kBlockPositions;
  n_padded_blocks = (n_blocks + kBlocksTogether - 1) / kBlocksTogether * kBlocksTogether;
  const std::uint32_t n_sixty_fours = (n_streams() + 63) / 64;
  volume = std::make_shared<SlicedDevice>();
  SlicedDevice& v = *volume;
  v.layout = layout;
  v.n_positions = options.n_positions;
  QUANTEM_TRY(zeroed(v.bases, 16 * n_padded_blocks, "block addresses"));
  QUANTEM_TRY(zeroed(v.directory, 4 * n_padded_blocks * n_streams(), "directory"));
  QUANTEM_TRY(zeroed(v.list_end, 2 * n_padded_blocks * n_streams(), "directory"));
  QUANTEM_TRY(zeroed(v.list_start, 4 * n_padded_blocks * n_sixty_fours, "directory"));
  QUANTEM_TRY(zeroed(v.pixel_of_stream, 4ull * layout.n_pixels, "pixel order"));
  QUANTEM_TRY(context->copy_up(v.pixel_of_stream.data(), layout.pixel_of_stream.data(), 4ull * layout.n_pixels));
  v.view = {v.bases.as<u64>(),      v.bases.as<u64>() + n_padded_blocks,
            v.directory.as<u32>(),  v.list_end.as<u16>(),
            v.list_start.as<u32>(), n_streams(),
            n_sixty_fours,          static_cast<u32>(n_blocks)};
  return Done{};
}

Result<Done> SlicedDeviceBuilder::State::allocate_inputs() {
  const SlicedLayout& layout = options.layout;
  const BitMask& mask = options.valid_pixels;
  QUANTEM_TRY(zeroed(stream_of_pixel, 4ull * layout.n_pixels, "pixel order"));
  QUANTEM_TRY(zeroed(valid, 4ull * row_words_of(layout.n_pixels), "pixel mask"));
  QUANTEM_TRY(zeroed(totals, sizeof(Totals), "audit"));
  QUANTEM_TRY(zeroed(max_key, 8 * n_padded_blocks, "audit"));
  QUANTEM_TRY(context->copy_up(stream_of_pixel.data(), layout.stream_of_pixel.data(), 4ull * layout.n_pixels));
  QUANTEM_TRY(context->copy_up(valid.data(), mask.words().data(), (mask.count() + 31) / 32 * 4));
  Totals none{};
  none.count_min = ~0u;
  QUANTEM_TRY(context->copy_up(totals.data(), &none, sizeof none));
  if (options.item_bits != 32) return Done{};
  QUANTEM_TRY(zeroed(flagged, kFlaggedCapacity * sizeof(FlaggedSample), "flagged samples"));
  flagged_capacity = kFlaggedCapacity;
  return Done{};
}

Result<Done> SlicedDeviceBuilder::State::make_lane(OneLane& l, const LaneBytes& bytes, AreaPieces& pieces) const {
  const SlicedLayout& layout = options.layout;
  Lane& lane = l.lane;
  pieces.take(lane.rows.words, bytes.words);
  pieces.take(lane.rows.live, bytes.live);
  pieces.take(lane.rows.present, bytes.present);
  lane.rows.n_planes = options.item_bits;
  lane.rows.row_words = row_words_of(layout.n_pixels);
  lane.rows.n_segments = (lane.rows.row_words + kSegmentWords - 1) / kSegmentWords;
  pieces.take(lane.pixels.planes, bytes.pixel_planes);
  pieces.take(lane.pixels.set_bits, bytes.pixel_counts);
  pieces.take(lane.pixels.used, bytes.pixel_used);
  lane.pixels.n_streams = layout.n_pixels;
  lane.pixels.n_planes = options.item_bits;
  pieces.take(lane.tiles.planes, bytes.tile_planes);
  pieces.take(lane.tiles.set_bits, bytes.tile_counts);
  pieces.take(lane.tiles.used, bytes.tile_used);
  lane.tiles.n_streams = n_streams() - layout.n_pixels;
  lane.tiles.n_planes = options.item_bits + 15;
  pieces.take(lane.cut, bytes.cut);
  pieces.take(lane.groups, bytes.groups);
  pieces.take(lane.totals, bytes.totals);
  QUANTEM_TRY(context->check(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking), "load stream"));
  QUANTEM_TRY(context->check(cudaEventCreateWithFlags(&l.offsets_done, cudaEventDisableTiming), "load event"));
  const std::uint64_t blocks = options.slab_blocks;
  QUANTEM_TRY(context->check(cudaHostAlloc(reinterpret_cast<void**>(&l.host_totals), 8 * blocks, 0), "pinned totals"));
  return context->check(cudaHostAlloc(reinterpret_cast<void**>(&l.host_bases), 16 * blocks, 0), "pinned totals");
}

// In what segments have left, or in a new one: as large as what is still to come should need by the blocks so far (this one included), at
// most 256 MiB. Planes and lists of a block need not lie together, so the lists of later blocks fill what planes leave.
Result<std::uint64_t> SlicedDeviceBuilder::State::room(std::uint64_t need) {
  if (need == 0) return reinterpret_cast<std::uint64_t>(last.data);  // nobody reads there
  bytes_placed += need;
  Rest* from = need <= spare.n_bytes ? &spare : &last;
  if (from->n_bytes < need) {
    const std::uint64_t blocks_left = volume->view.n_blocks - blocks_placed;
    const double per_block = static_cast<double>(bytes_placed) / static_cast<double>(blocks_placed + 1);
    const auto expected = static_cast<std::uint64_t>(1.02 * per_block * static_cast<double>(blocks_left));
    const std::uint64_t n_bytes = std::max(need, std::min<std::uint64_t>(expected, std::uint64_t{256} << 20));
    QUANTEM_TRY_ASSIGN(segment, context->allocate(n_bytes, "load: planes and lists of the volume"));
    if (last.n_bytes > spare.n_bytes) spare = last;
    last = {segment.as<char>(), segment.n_bytes()};
    volume->segments.push_back(std::move(segment));
  }
  const auto address = reinterpret_cast<std::uint64_t>(from->data);
  from->data += need;
  from->n_bytes -= need;
  return address;
}

std::uint64_t SlicedDeviceBuilder::work_bytes(const Options& o) {
  return o.n_lanes * lane_bytes(o).sum();
}

SlicedDeviceBuilder::SlicedDeviceBuilder(std::unique_ptr<State> state) : state_(std::move(state)) {}
SlicedDeviceBuilder::~SlicedDeviceBuilder() = default;

CudaStream* SlicedDeviceBuilder::stream(std::uint32_t lane) const {
  return reinterpret_cast<CudaStream*>(state_->lanes[lane].stream);
}
PlaneRows SlicedDeviceBuilder::rows(std::uint32_t lane) const {
  return state_->lanes[lane].lane.rows;
}

Result<std::unique_ptr<SlicedDeviceBuilder>> SlicedDeviceBuilder::make(CudaContext& context, const Options& o) {
  if (o.layout.n_pixels >= 1u << 23)
    return Error{Code::unsupported,
                 "cuda: a frame of " + std::to_string(o.layout.n_pixels) + " pixels; at most 8388607"};
  auto state = std::make_unique<State>();
  state->context = &context;
  state->options = o;
  QUANTEM_TRY(state->allocate_volume());
  QUANTEM_TRY(state->allocate_inputs());
  const LaneBytes bytes = lane_bytes(o);
  state->lanes.resize(o.n_lanes);
  if (!o.work) {
    QUANTEM_TRY_ASSIGN(memory, context.allocate(work_bytes(o), "work area of the encoder"));
    state->own_work = std::move(memory);
  }
  AreaPieces pieces(o.work ? o.work : state->own_work.data());
  for (State::OneLane& lane : state->lanes) QUANTEM_TRY(state->make_lane(lane, bytes, pieces));
  QUANTEM_TRY(context.check(cudaDeviceSynchronize(), "load set-up"));
  return std::unique_ptr<SlicedDeviceBuilder>(new SlicedDeviceBuilder(std::move(state)));
}

Result<Done> SlicedDeviceBuilder::rows_from_values(std::uint32_t lane, const void* values, std::uint32_t n_frames) {
  State& s = *state_;
  State::OneLane& l = s.lanes[lane];
  const PlaneRows& rows = l.lane.rows;
  QUANTEM_TRY(s.context->check(cudaMemsetAsync(rows.live, 0, lane_bytes(s.options).live, l.stream), "encode"));
  start_rows_from_values(rows, values, s.options.item_bits, s.valid.as<u32>(), s.options.layout.n_pixels, n_frames,
                         l.stream);
  return s.context->check(cudaGetLastError(), "encode: values to planes");
}

Result<Done> SlicedDeviceBuilder::clear_flagged(std::uint32_t lane, std::uint64_t first_block, std::uint32_t n_blocks) {
  State& s = *state_;
  if (s.options.item_bits != 32) return Done{};
  const PlaneRows& rows = s.lanes[lane].lane.rows;
  const u32 n_frames = n_blocks * kBlockPositions;
  start_clear_flagged(rows, first_block * kBlockPositions, n_frames, s.flagged.as<FlaggedSample>(), s.flagged_capacity,
                      s.totals.as<Totals>(), s.lanes[lane].stream);
  return s.context->check(cudaGetLastError(), "encode: flagged samples");
}

Result<Done> SlicedDeviceBuilder::encode(std::uint32_t lane, std::uint64_t first_block, std::uint32_t n_blocks) {
  State& s = *state_;
  State::OneLane& l = s.lanes[lane];
  const Lane& d = l.lane;
  const double saturation = std::isfinite(s.options.saturation) ? s.options.saturation : 0x1p60;
  l.first_block = first_block;
  l.n_blocks = n_blocks;
  start_transpose(d.rows, d.pixels, s.stream_of_pixel.as<u32>(), s.options.layout.n_pixels, n_blocks, l.stream);
  start_tiles(d.pixels, d.tiles, s.geometry, n_blocks, l.stream);
  start_widths(d.pixels, d.tiles, d.cut, d.groups, n_blocks, l.stream);
  start_scan(s.volume->view, s.directory(), d.groups, d.totals, first_block, n_blocks, l.stream);
  QUANTEM_TRY(s.context->check(cudaGetLastError(), "encode"));
  QUANTEM_TRY(s.context->check(
      cudaMemcpyAsync(l.host_totals, d.totals, 8ull * n_blocks, cudaMemcpyDeviceToHost, l.stream), "encode"));
  QUANTEM_TRY(s.context->check(cudaEventRecord(l.offsets_done, l.stream), "encode"));
  start_audit(d.pixels, d.rows, s.volume->pixel_of_stream.as<u32>(), s.valid.as<u32>(), s.options.item_bits,
              static_cast<u64>(std::ceil(saturation)), s.totals.as<Totals>(), s.max_key.as<u64>() + first_block,
              n_blocks, l.stream);
  return s.context->check(cudaGetLastError(), "encode: audit");
}

Result<Done> SlicedDeviceBuilder::place(std::uint32_t lane) {
  State& s = *state_;
  State::OneLane& l = s.lanes[lane];
  if (l.n_blocks == 0) return Done{};
  QUANTEM_TRY(s.context->check(cudaEventSynchronize(l.offsets_done), "load"));
  for (std::uint32_t b = 0; b < l.n_blocks; ++b) {
    const std::uint64_t plane_bytes = std::uint64_t{l.host_totals[b].x} * kPlaneBytes,
                        list_bytes = (2ull * l.host_totals[b].y + 63) / 64 * 64;
    if (plane_bytes > 0xffffffffu - kPlaneBytes)
      return Error{
          Code::unsupported,
          "load: the planes of block " + std::to_string(l.first_block + b) + " take " + std::to_string(plane_bytes) +
              " bytes, a block holds at most 4 GiB. Ways out: representation dense, a scan region, a detector bin"};
    QUANTEM_TRY_ASSIGN(planes, s.room(plane_bytes));
    QUANTEM_TRY_ASSIGN(lists, s.room(list_bytes));
    l.host_bases[b] = planes;
    l.host_bases[l.n_blocks + b] = lists;
    ++s.blocks_placed;
  }
  u64* bases = s.volume->bases.as<u64>();
  for (int list = 0; list < 2; ++list)
    QUANTEM_TRY(s.context->check(
        cudaMemcpyAsync(bases + list * s.n_padded_blocks + l.first_block, l.host_bases + list * l.n_blocks,
                        8ull * l.n_blocks, cudaMemcpyHostToDevice, l.stream),
        "load"));
  start_place(l.lane.pixels, l.lane.tiles, s.volume->view, s.directory(), l.lane.cut, l.lane.groups, l.first_block,
              l.n_blocks, l.stream);
  l.n_blocks = 0;
  return s.context->check(cudaGetLastError(), "load: place");
}

// The audit of all slabs; returns how many samples were flagged.
Result<std::uint64_t> SlicedDeviceBuilder::State::read_audit(DeviceAudit& audit) const {
  Totals t{};
  QUANTEM_TRY(context->copy_down(&t, totals.data(), sizeof t));
  std::vector<std::uint64_t> keys(n_padded_blocks);
  QUANTEM_TRY(context->copy_down(keys.data(), max_key.data(), 8 * keys.size()));
  audit = {t.n_nonzero, t.n_above_255, t.n_above_65535, t.n_saturated, t.count_min == ~0u ? 0 : t.count_min, 0, 0, 0};
  std::uint64_t best = 0;
  for (std::uint64_t b = 0; b < keys.size(); ++b) {
    if (keys[b] == 0 || (best != 0 && keys[b] >> 32 <= best >> 32)) continue;  // the first block wins a tie
    best = keys[b];
    audit.count_max = static_cast<std::uint32_t>(best >> 32);
    audit.max_position = b * kBlockPositions + 511 - (best >> 23 & 511);
    audit.max_pixel = (1u << 23) - 1 - static_cast<std::uint32_t>(best & ((1u << 23) - 1));
  }
  return t.n_flagged;
}

Result<std::shared_ptr<const SlicedDevice>> SlicedDeviceBuilder::finish(DeviceAudit& audit,
                                                                        std::vector<FlaggedSample>& flagged) {
  State& s = *state_;
  for (std::uint32_t lane = 0; lane < s.options.n_lanes; ++lane) QUANTEM_TRY(place(lane));
  SlicedDevice& v = *s.volume;
  QUANTEM_TRY_ASSIGN(costs, s.context->allocate(8ull * s.n_streams(), "stream costs"));
  for (State::OneLane& l : s.lanes) QUANTEM_TRY(s.context->check(cudaStreamSynchronize(l.stream), "load"));
  start_mean_costs(v.view, costs.as<float>(), costs.as<float>() + s.n_streams(), s.lanes[0].stream);
  QUANTEM_TRY(s.context->check(cudaGetLastError(), "load"));
  QUANTEM_TRY(s.context->check(cudaStreamSynchronize(s.lanes[0].stream), "load"));
  v.mean_planes.resize(s.n_streams());
  v.mean_listed.resize(s.n_streams());
  QUANTEM_TRY(s.context->copy_down(v.mean_planes.data(), costs.data(), 4ull * s.n_streams()));
  QUANTEM_TRY(s.context->copy_down(v.mean_listed.data(), costs.as<float>() + s.n_streams(), 4ull * s.n_streams()));
  QUANTEM_TRY_ASSIGN(n_flagged, s.read_audit(audit));
  if (n_flagged > s.flagged_capacity)
    return Error{Code::unsupported, "cuda: " + std::to_string(n_flagged) +
                                        " samples without a value, the device keeps at most " +
                                        std::to_string(s.flagged_capacity)};
  flagged.resize(n_flagged);
  if (n_flagged) QUANTEM_TRY(s.context->copy_down(flagged.data(), s.flagged.data(), n_flagged * sizeof(FlaggedSample)));
  std::sort(flagged.begin(), flagged.end());
  return Result<std::shared_ptr<const SlicedDevice>>(std::shared_ptr<const SlicedDevice>(s.volume));
}

}  // namespace quantem
