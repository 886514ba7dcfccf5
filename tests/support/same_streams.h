#pragma once
// Two encoded volumes, stream by stream: widths, planes and lists.

#include <gtest/gtest.h>

#include <cstring>

#include "quantem/resident/sliced.h"

namespace quantem::support {

inline void expect_same_streams(const SlicedStorage& want, const SlicedStorage& got) {
  ASSERT_EQ(want.n_blocks(), got.n_blocks());
  const std::uint32_t n = want.layout.n_streams;
  ASSERT_EQ(n, got.layout.n_streams);
  for (std::uint64_t b = 0; b < want.n_blocks(); ++b) {
    const SlicedBlock &w = want.blocks[b], &g = got.blocks[b];
    for (std::uint32_t s = 0; s < n; ++s) {
      ASSERT_EQ(w.entry[s], g.entry[s]) << "block " << b << " stream " << s;
      ASSERT_EQ(w.list_stop(s) - w.lists, g.list_stop(s) - g.lists) << "block " << b << " stream " << s;
      ASSERT_EQ(std::memcmp(w.stream_planes(s), g.stream_planes(s), w.width(s) * std::size_t{kPlaneBytes}), 0)
          << "planes of block " << b << " stream " << s;
    }
    ASSERT_EQ(std::memcmp(w.lists, g.lists, 2 * static_cast<std::size_t>(w.list_stop(n - 1) - w.lists)), 0)
        << "lists of block " << b;
  }
}

}  // namespace quantem::support
