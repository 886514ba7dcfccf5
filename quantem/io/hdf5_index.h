#pragma once
// How an HDF5 dataset is stored: shape, element type, chunk shape, filters, and where every chunk lies. No counts are read here.
// Callers hold an hdf5::Lock.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quantem/core/dtype.h"
#include "quantem/core/result.h"
#include "quantem/io/container.h"
#include "quantem/io/hdf5_file.h"

namespace quantem::hdf5 {

struct ElementType {
  enum class Kind : std::uint8_t { integer, floating, other } kind = Kind::other;
  std::uint32_t bytes = 0;
  bool is_signed = false, big_endian = false;
  std::string name;  // "uint32", "float16", "compound"
};
ElementType element_type(const Object& dataset);
// The count dtype of a type, or unsupported with the conversion to make (C9); `where` begins the message.
Result<Dtype> count_dtype(const ElementType& type, const std::string& where);

// One rectangular piece of a virtual dataset: the same box in the virtual array and in a dataset of another (or the same) file.
struct Box {
  std::vector<std::uint64_t> start, extent;
};
struct VirtualPiece {
  std::string file, dataset;  // file "." is the file itself
  Box in_virtual, in_source;
};

enum class Layout : std::uint8_t { contiguous, compact, chunked, virtual_ };

struct DatasetIndex {
  ElementType type;
  Layout layout = Layout::contiguous;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk;  // chunked: as stored; may be larger than the array
  FilterPipeline filters;
  bool partial_edge_chunks_unfiltered = false;
  // Chunked: row-major over the chunk grid, absent where never written. Contiguous and compact: one range (absent when never
  // allocated). Offsets are in the file, a user block included.
  std::vector<ByteRange> chunks;
  std::vector<VirtualPiece> pieces;  // virtual: nothing else below `shape` is set
  // Chunks whose bytes end after the file are listed as absent; a contiguous range of a file that is cut off ends with the file.
  std::uint64_t n_out_of_file = 0;  // how many
  std::string out_of_file;          // the first of them, in words
  bool index_cut_off = false;       // parts of the chunk index lie beyond the end of a file that is cut off
};

inline constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 30;

// corrupt_data or unsupported, naming file and dataset; missing_data when the file is cut off before the start of the index.
Result<DatasetIndex> index_dataset(const Object& dataset);
// Reads the chunk indices of all of them at once, with all threads; index_dataset of each then has it. Says nothing of faults: that does.
void read_ahead(std::span<const Object* const> datasets);
// Shape and type only.
Result<std::vector<std::uint64_t>> dataset_shape(const Object& dataset);

// Number of chunks along every axis.
std::vector<std::uint64_t> chunk_grid(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& chunk);

}  // namespace quantem::hdf5
