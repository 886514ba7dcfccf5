#include "quantem/resident/sliced.h"

#include <algorithm>

namespace quantem {
namespace {

Extent tiles_of(Extent det, std::uint32_t side) {
  return {(det.rows + side - 1) / side, (det.cols + side - 1) / side};
}

Region tile_region(Extent det, Extent tiles, std::uint32_t side, std::uint32_t tile) {
  const std::uint32_t row = tile / tiles.cols * side, col = tile % tiles.cols * side;
  return {row, std::min(row + side, det.rows), col, std::min(col + side, det.cols)};
}

}  // namespace

SlicedLayout::SlicedLayout(Extent det_, bool tiles_4)
    : det(det_),
      tiles8(tiles_of(det_, 8)),
      tiles32(tiles_of(det_, 32)),
      tiles4(tiles_4 ? tiles_of(det_, 4) : Extent{0, 0}),
      n_pixels(static_cast<std::uint32_t>(det_.count())),
      n_tiles8(static_cast<std::uint32_t>(tiles8.count())),
      n_tiles32(static_cast<std::uint32_t>(tiles32.count())),
      n_tiles4(static_cast<std::uint32_t>(tiles4.count())),
      n_streams(n_pixels + n_tiles8 + 3 * n_tiles32 + n_tiles4) {
  pixel_of_stream.reserve(n_pixels);
  stream_of_pixel.resize(n_pixels);
  for (std::uint32_t tile = 0; tile < n_tiles8; ++tile) {
    const Region r = tile8_region(tile);
    for (std::uint32_t row = r.row_start; row < r.row_stop; ++row)
      for (std::uint32_t col = r.col_start; col < r.col_stop; ++col) {
        const std::uint32_t pixel = row * det.cols + col;
        stream_of_pixel[pixel] = static_cast<std::uint32_t>(pixel_of_stream.size());
        pixel_of_stream.push_back(pixel);
      }
  }
}

Region SlicedLayout::tile8_region(std::uint32_t tile) const {
  return tile_region(det, tiles8, 8, tile);
}
Region SlicedLayout::tile32_region(std::uint32_t tile) const {
  return tile_region(det, tiles32, 32, tile);
}

std::vector<std::uint32_t> SlicedLayout::tile_levels() const {
  return has_tiles_4() ? std::vector<std::uint32_t>{4, 8, 32} : std::vector<std::uint32_t>{8, 32};
}
// Like pixels, two in the place of eight: whole bands of two rows of 4x4 tiles, then two columns at a time of the band at hand.
std::uint32_t SlicedLayout::first_tile4(std::uint32_t tile8) const {
  const std::uint32_t row = tile8 / tiles8.cols, col = tile8 % tiles8.cols;
  return row * 2 * tiles4.cols + tiles4_of(tile8).rows * col * 2;
}
Extent SlicedLayout::tiles4_of(std::uint32_t tile8) const {
  const std::uint32_t row = tile8 / tiles8.cols, col = tile8 % tiles8.cols;
  return {std::min(2u, tiles4.rows - 2 * row), std::min(2u, tiles4.cols - 2 * col)};
}

}  // namespace quantem
