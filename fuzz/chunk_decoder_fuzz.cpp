// Chunk decoding on arbitrary bytes. The first eight choose the pipeline, the element size, the size of the output and the filter
// mask; the rest is the stored chunk. Wanted: refused or decoded within bounds, in bounded memory, and the same through both paths.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "quantem/io/bitshuffle.h"
#include "quantem/io/bslz4_planes.h"
#include "quantem/io/filters.h"

using namespace quantem;

namespace {

FilterPipeline pipeline_of(std::uint8_t choice, std::uint32_t item_bytes, std::uint32_t block) {
  const Filter shuffle{2, {item_bytes}}, deflate{1, {4}}, lz4{32004, {}}, zstd{32015, {3}};
  const auto bits = [&](std::uint32_t code) { return Filter{32008, {0, 3, item_bytes, block, code}}; };
  switch (choice % 13) {
    case 0:
      return {};
    case 1:
      return {deflate};
    case 2:
      return {shuffle, deflate};
    case 3:
      return {lz4};
    case 4:
      return {shuffle, lz4};
    case 5:
      return {zstd};
    case 6:
      return {bits(0)};
    case 7:
      return {bits(3)};
    case 8:
      return {bits(2), deflate};
    case 9:
      return {bits(0), zstd};
    case 10:
      return {deflate, zstd, lz4};
    default:
      return {bits(2)};
  }
}

// Planes and elements of a bitshuffle chunk say the same: same verdict, same bytes.
void check_planes(std::span<const std::byte> stored, const Filter& filter, std::size_t item_bytes,
                  std::span<const std::byte> elements, const ChunkFault& expected) {
  PlaneGeometry g;
  ChunkFault fault = plane_geometry(stored, filter, item_bytes, elements.size(), g);
  if (fault.ok()) {
    std::vector<std::byte> planes(elements.size()), tail(8 * item_bytes), back(elements.size());
    std::vector<std::uint8_t> n_planes(static_cast<std::size_t>(g.n_blocks()));
    fault = decode_planes(stored, g, {planes.data(), g.bytes_of(0), tail.data(), n_planes.data()});
    if (fault.ok()) {
      std::size_t done = 0;
      for (std::uint64_t b = 0; b < g.n_blocks(); ++b) {
        const auto n = static_cast<std::size_t>(g.bytes_of(b));
        const std::size_t written = n_planes[static_cast<std::size_t>(b)] * n / (8 * item_bytes);
        std::memset(planes.data() + done + written, 0, n - written);
        elements_from_planes({planes.data() + done, n}, item_bytes, std::span(back).subspan(done, n));
        done += n;
      }
      std::copy_n(tail.begin(), elements.size() - done, back.begin() + static_cast<std::ptrdiff_t>(done));
      if (expected.ok() && !std::equal(back.begin(), back.end(), elements.begin())) std::abort();
    }
  }
  if (fault.verdict != expected.verdict) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n) {
  if (n < 8) return 0;
  constexpr std::uint32_t kItems[] = {1, 2, 4, 8, 3, 2, 2, 1};
  const std::uint32_t item_bytes = kItems[data[1] % 8];
  const std::size_t n_elements = static_cast<std::size_t>(data[2] | data[3] << 8) % 20000;
  const std::uint32_t block = std::uint32_t{data[4]} * 8;
  const FilterPipeline pipeline = pipeline_of(data[0], item_bytes, data[5] % 4 == 0 ? block : 0);
  const std::uint32_t mask = data[6] % 8 == 0 ? data[7] % 8 : 0;
  const auto stored = std::as_bytes(std::span(data + 8, n - 8));
  std::vector<std::byte> out(n_elements * item_bytes), again(out.size(), std::byte{0xff});
  DecodeScratch scratch, other;
  const ChunkFault fault = decode_chunk(stored, pipeline, mask, item_bytes, out, scratch);
  if (scratch.a.size() + scratch.b.size() + scratch.planes.size() > 5 * out.size() + (std::size_t{1} << 18))
    std::abort();
  if (describe(fault).empty()) std::abort();
  // Twice the same, whatever the output held before: nothing stale.
  const ChunkFault second = decode_chunk(stored, pipeline, mask, item_bytes, again, other);
  if (second.verdict != fault.verdict || (fault.ok() && again != out)) std::abort();
  if (pipeline.size() == 1 && pipeline[0].id == 32008 && mask == 0)
    check_planes(stored, pipeline[0], item_bytes, out, fault);
  return 0;
}
