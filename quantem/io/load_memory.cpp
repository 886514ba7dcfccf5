#include "quantem/io/load_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "quantem/io/load_cuda.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

constexpr double kTiles4Growth = 1.12;  // of planes and lists

std::uint64_t streams_of(Extent det, bool tiles_4) {
  const auto tiles = [&](std::uint32_t side) {
    return std::uint64_t{(det.rows - 1) / side + 1} * ((det.cols - 1) / side + 1);
  };
  return det.count() + tiles(8) + 3 * tiles(32) + (tiles_4 ? tiles(4) : 0);
}

std::uint64_t stored_bytes(const Container& c) {
  std::uint64_t n = 0;
  for (const Part& part : c.parts)
    for (const ByteRange& r : part.chunks)
      if (r.present()) n += r.bytes;
  return n;
}

std::uint64_t resident_bytes(const Container& c, const LoadPlan& plan, Representation representation) {
  const std::uint64_t dense = plan.shape.n_values() * item_bytes(plan.dtype);
  if (representation == Representation::dense) return dense;
  const double fraction = static_cast<double>(plan.crop.n_values()) / static_cast<double>(plan.source.n_values());
  const double planes =
      std::min(static_cast<double>(stored_bytes(c)) * fraction * 1.1, static_cast<double>(dense) * 1.1) *
      (plan.options.tiles_4 ? kTiles4Growth : 1.0);
  return static_cast<std::uint64_t>(std::ceil(planes)) +
         5 * streams_of(plan.shape.det, plan.options.tiles_4) * plan.n_blocks;
}

std::uint64_t chunk_bytes(const Container& c) {
  std::uint64_t largest = 0;
  for (const Part& part : c.parts) {
    std::uint64_t decoded = part.chunk.empty() ? c.shape.frame_pixels() : 1;
    for (const std::uint64_t n : part.chunk) decoded *= n;  // checked when the container was made
    largest = std::max(largest, 2 * decoded * item_bytes(part.dtype));
  }
  return largest;
}

std::string gigabytes(std::uint64_t bytes) {
  char text[32];
  const double gb = static_cast<double>(bytes) / 1e9;
  std::snprintf(text, sizeof text, gb < 0.1 ? "%.4f GB" : "%.2f GB", gb);
  return text;
}

std::string shape_text(const Shape4& s) {
  return std::to_string(s.scan.rows) + "x" + std::to_string(s.scan.cols) + "x" + std::to_string(s.det.rows) + "x" +
         std::to_string(s.det.cols);
}

// The same load with other options: what it would take, where that fits.
std::optional<std::uint64_t> need_of(const Device& device, const Container& c, const LoadOptions& options) {
  const auto plan = plan_load(device, c, options);
  if (!plan || !plan->estimate.fits()) return std::nullopt;
  return plan->estimate.resident_bytes;
}

std::vector<std::string> ways_out(const Device& device, const Container& c, const LoadPlan& plan) {
  std::vector<std::string> ways;
  LoadOptions other = plan.options;
  if (plan.representation == Representation::dense && is_unsigned_count(plan.dtype)) {
    other.representation = Representation::encoded;
    if (const auto n = need_of(device, c, other)) ways.push_back("keep encoded storage (about " + gigabytes(*n) + ")");
    other = plan.options;
  }
  if (other.tiles_4) {
    other.tiles_4 = false;
    if (const auto n = need_of(device, c, other)) ways.push_back("leave out tiles_4 (" + gigabytes(*n) + ")");
    other = plan.options;
  }
  std::uint32_t fits = 0, tried = plan.crop.scan.rows / plan.options.scan_bin.rows * plan.options.scan_bin.rows;
  std::uint64_t need = 0;
  for (std::uint32_t low = 1, high = tried; low <= high;) {  // the most scan rows that fit
    const std::uint32_t rows = low + (high - low) / 2;
    other.scan_region = plan.scan_region;
    other.scan_region->row_stop = plan.scan_region.row_start + rows;
    const auto n = rows >= plan.options.scan_bin.rows ? need_of(device, c, other) : std::nullopt;
    if (n)
      fits = rows, need = *n, low = rows + 1;
    else if (rows < plan.options.scan_bin.rows)
      low = rows + 1;
    else
      high = rows - 1;
  }
  if (fits) {
    other.scan_region->row_stop = plan.scan_region.row_start + fits;
    ways.push_back("scan_region=" + to_string(*other.scan_region) + " (" + gigabytes(need) + ")");
  }
  other = plan.options;
  for (std::uint32_t factor = 2; factor <= std::max(plan.crop.det.rows, plan.crop.det.cols); factor *= 2) {
    other.det_bin = {std::min(plan.options.det_bin.rows * factor, plan.crop.det.rows),
                     std::min(plan.options.det_bin.cols * factor, plan.crop.det.cols)};
    const auto n = need_of(device, c, other);
    if (!n) continue;
    ways.push_back(
        "det_bin=" +
        (other.det_bin.rows == other.det_bin.cols ? std::to_string(other.det_bin.rows) : to_string(other.det_bin)) +
        " (" + gigabytes(*n) + ")");
    break;
  }
  return ways;
}

}  // namespace

void plan_memory(const Device& device, const Container& container, LoadPlan& plan) {
  const int threads = device.options().threads > 0 ? device.options().threads : default_thread_count();
  const std::uint64_t positions = std::min<std::uint64_t>(kBlockPositions, plan.shape.n_positions());
  const std::uint64_t out_pixels = plan.shape.frame_pixels(), item = item_bytes(plan.dtype);
  std::uint64_t block = 2 * plan.source.frame_pixels() * item_bytes(plan.source_dtype);  // one frame, and its crop
  if (plan.binned()) block += out_pixels * 8;                                            // accumulators of one position
  if (plan.representation == Representation::encoded) {
    const std::uint64_t fields = streams_of(plan.shape.det, plan.options.tiles_4) - out_pixels;
    block += positions * out_pixels * item + fields * kBlockPositions * 8;   // counts, tile sums
    block += positions * out_pixels * item / 2 + 7 * (out_pixels + fields);  // planes and lists as they grow
  }
  plan.block_bytes = block;
  const std::uint64_t fit = std::max<std::uint64_t>(1, device.options().work_bytes / std::max<std::uint64_t>(block, 1));
  plan.blocks_in_work =
      static_cast<int>(std::min({fit, static_cast<std::uint64_t>(threads), std::max<std::uint64_t>(plan.n_blocks, 1)}));
  plan.estimate.resident_bytes = resident_bytes(container, plan, plan.representation);
  plan.estimate.work_bytes = block * static_cast<std::uint64_t>(plan.blocks_in_work);
  if (device.backend() == Backend::cuda) {
    plan.estimate.work_bytes = cuda_work_bytes(device, plan);
    if (plan.representation == Representation::dense && is_unsigned_count(plan.dtype))  // made from the encoded volume
      plan.estimate.work_bytes += resident_bytes(container, plan, Representation::encoded);
  }
  plan.estimate.staging_bytes = chunk_bytes(container) * static_cast<std::uint64_t>(plan.blocks_in_work);
  plan.estimate.usable_bytes = device.usable_bytes();
}

Result<Done> check_memory(const Device& device, const Container& container, const LoadPlan& plan) {
  const LoadEstimate& e = plan.estimate;
  if (e.fits()) return Done{};
  std::string text = "load: " + shape_text(plan.shape) + " " + std::string(dtype_name(plan.dtype)) + " as " +
                     std::string(representation_name(plan.representation)) + " needs " + gigabytes(e.resident_bytes) +
                     " + " + gigabytes(e.work_bytes) + " work area; " + device.label() + " has " +
                     gigabytes(device.info().free_bytes) + " free, " + gigabytes(e.usable_bytes) + " usable.";
  const auto ways = ways_out(device, container, plan);
  text += ways.empty() ? " No scan region or detector bin makes it fit; raise the memory limit." : " Ways out: ";
  for (std::size_t i = 0; i < ways.size(); ++i) text += (i ? "; " : "") + ways[i];
  if (!ways.empty()) text += ".";
  return Error{Code::out_of_memory, text};
}

}  // namespace quantem
