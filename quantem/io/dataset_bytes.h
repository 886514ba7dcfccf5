#pragma once
// A whole dataset of any element type and rank, as the bytes that the file holds, decoded by this program. For masks, small
// auxiliary arrays, and tests of every layout. Never used for counts.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "quantem/core/result.h"

namespace quantem {

struct DatasetBytes {
  std::string type;  // "uint32", "float64", "compound", ...
  std::uint32_t item_bytes = 0;
  bool big_endian = false, is_signed = false;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;  // C order, elements as the file holds them
};

// Follows links; virtual datasets are refused. unsupported above `most_bytes`; missing_data when a chunk was never written;
// corrupt_data names file, dataset and chunk.
Result<DatasetBytes> read_dataset_bytes(const std::filesystem::path& file, std::string_view dataset,
                                        std::uint64_t most_bytes = std::uint64_t{1} << 30);

// Paths of all datasets that hard links reach, in name order, at most `limit`.
Result<std::vector<std::string>> list_datasets(const std::filesystem::path& file, std::size_t limit = 10000);

}  // namespace quantem
