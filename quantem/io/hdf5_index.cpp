#include "quantem/io/hdf5_index.h"

#include <algorithm>

#include "quantem/io/hdf5_chunks.h"

namespace quantem::hdf5 {
namespace {

constexpr int kMaxRank = 32;

struct Space {
  std::vector<std::uint64_t> shape, max_shape;
};

std::optional<Space> space_of(hid_t dataset) {
  Id space(H5Dget_space(dataset), H5Sclose);
  if (!space || H5Sget_simple_extent_type(space.get()) == H5S_NULL) return std::nullopt;
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0 || rank > kMaxRank) return std::nullopt;
  std::vector<hsize_t> now(static_cast<std::size_t>(rank)), most(now);
  if (rank > 0 && H5Sget_simple_extent_dims(space.get(), now.data(), most.data()) < 0) return std::nullopt;
  return Space{{now.begin(), now.end()}, {most.begin(), most.end()}};  // H5S_UNLIMITED is kNoAddress
}
static_assert(H5S_UNLIMITED == kNoAddress);

FilterPipeline filters_of(hid_t made) {
  FilterPipeline pipeline;
  const int n = H5Pget_nfilters(made);
  for (int i = 0; i < n && i < 32; ++i) {
    unsigned flags = 0, values[256] = {}, config = 0;
    std::size_t n_values = 256;
    const H5Z_filter_t id =
        H5Pget_filter2(made, static_cast<unsigned>(i), &flags, &n_values, values, 0, nullptr, &config);
    if (id < 0) break;
    pipeline.push_back({static_cast<std::uint32_t>(id), {values, values + std::min<std::size_t>(n_values, 256)}});
  }
  return pipeline;
}

// Addresses by libhdf5, for object headers that this program does not know. H5Dchunk_iter is one pass; where it is missing,
// H5Dget_chunk_info_by_coord is asked for every chunk, and long lists, for which that would take hours, are refused.
#if H5_VERSION_GE(1, 14, 0)
struct IterTarget {
  const std::vector<std::uint64_t>*chunk, *grid;
  std::vector<ByteRange>* chunks;
};
int take_chunk(const hsize_t* offset, unsigned mask, haddr_t address, hsize_t bytes, void* data) {
  const auto& to = *static_cast<IterTarget*>(data);
  std::uint64_t flat = 0;
  for (std::size_t d = 0; d < to.grid->size(); ++d) {
    const std::uint64_t cell = offset[d] / (*to.chunk)[d];
    if (cell >= (*to.grid)[d]) return 0;
    flat = flat * (*to.grid)[d] + cell;
  }
  if (address != HADDR_UNDEF) (*to.chunks)[flat] = {address, bytes, mask};
  return 0;
}
#endif

Result<Done> chunks_by_library(const Object& dataset, const DatasetIndex& index, const ChunkedArray& array,
                               std::vector<ByteRange>& chunks) {
  if (dataset.file->superblock.base != 0)
    return Error(Code::unsupported, dataset.where() +
                                        ": this kind of object header behind a user block is not read; "
                                        "copy the file with h5repack");
  chunks.assign(array.n_chunks, ByteRange{});
#if H5_VERSION_GE(1, 14, 0)
  IterTarget to{&index.chunk, &array.grid, &chunks};
  if (H5Dchunk_iter(dataset.id.get(), H5P_DEFAULT, take_chunk, &to) < 0)
    return Error(Code::corrupt_data, dataset.where() + ": HDF5 cannot list the chunks (" + last_reason() + ")");
#else
  // 1.10 numbers the chunks wrongly where an unlimited axis is not the first (seen with 1.10.8): better no answer.
  for (std::size_t d = 1; d < array.max_shape.size(); ++d)
    if (array.max_shape[d] == kNoAddress)
      return Error(
          Code::unsupported,
          dataset.where() + ": an unlimited axis behind an unknown object header; copy the file with h5repack");
  constexpr std::uint64_t kMostAsked = 20000;  // 0.06 to 5 ms each: linear in their number
  if (array.n_chunks > kMostAsked)
    return Error(Code::unsupported, dataset.where() + ": " + std::to_string(array.n_chunks) +
                                        " chunks behind an unknown object header; HDF5 " +
                                        "before 1.14 takes too long to list them; copy the file with h5repack");
  for (std::uint64_t flat = 0; flat < array.n_chunks; ++flat) {
    hsize_t offset[kMaxRank] = {}, bytes = 0;
    std::uint64_t rest = flat;
    for (std::size_t d = array.grid.size(); d-- > 0; rest /= array.grid[d])
      offset[d] = rest % array.grid[d] * index.chunk[d];
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    if (H5Dget_chunk_info_by_coord(dataset.id.get(), offset, &mask, &address, &bytes) < 0)
      return Error(Code::corrupt_data,
                   dataset.where() + ": HDF5 cannot find chunk " + std::to_string(flat) + " (" + last_reason() + ")");
    if (address != HADDR_UNDEF && bytes > 0) chunks[flat] = {address, bytes, mask};
  }
#endif
  return Done{};
}

// A selection as one box, or nothing (strides, several blocks, points, unlimited).
std::optional<Box> box_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1 || rank > kMaxRank) return std::nullopt;
  const auto n = static_cast<std::size_t>(rank);
  std::vector<hsize_t> extent(n), start(n), stride(n), count(n), block(n);
  const H5S_sel_type kind = H5Sget_select_type(space);
  if (kind == H5S_SEL_ALL) {
    if (H5Sget_simple_extent_dims(space, extent.data(), nullptr) < 0) return std::nullopt;
    return Box{std::vector<std::uint64_t>(n, 0), {extent.begin(), extent.end()}};
  }
  if (kind != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0 ||
      H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data()) < 0)
    return std::nullopt;
  Box box{{start.begin(), start.end()}, {}};
  for (std::size_t d = 0; d < n; ++d) {
    if (count[d] == H5S_UNLIMITED || block[d] == H5S_UNLIMITED || (count[d] > 1 && stride[d] != block[d]))
      return std::nullopt;
    const auto product = checked_multiply(count[d], block[d]);
    if (!product) return std::nullopt;
    box.extent.push_back(*product);
  }
  return box;
}

// The length of a name that libhdf5 would copy, read in a second call.
template <class Get>
std::string name_of(Get get) {
  const ssize_t n = get(nullptr, 0);
  if (n <= 0 || n > 65536) return {};
  std::string name(static_cast<std::size_t>(n) + 1, '\0');
  get(name.data(), name.size());
  name.resize(static_cast<std::size_t>(n));
  return name;
}

Result<Done> read_pieces(const Object& dataset, hid_t made, DatasetIndex& index) {
  std::size_t n = 0;
  if (H5Pget_virtual_count(made, &n) < 0 || n > 1000000)
    return Error(Code::corrupt_data, dataset.where() + ": the list of sources of this virtual dataset cannot be read");
  for (std::size_t i = 0; i < n; ++i) {
    VirtualPiece piece;
    piece.file = name_of([&](char* to, std::size_t room) { return H5Pget_virtual_filename(made, i, to, room); });
    piece.dataset = name_of([&](char* to, std::size_t room) { return H5Pget_virtual_dsetname(made, i, to, room); });
    Id target(H5Pget_virtual_vspace(made, i), H5Sclose), source(H5Pget_virtual_srcspace(made, i), H5Sclose);
    const auto in_virtual = target ? box_of(target.get()) : std::nullopt;
    const auto in_source = source ? box_of(source.get()) : std::nullopt;
    if (!in_virtual || !in_source || piece.file.find('%') != std::string::npos)
      return Error(Code::unsupported, dataset.where() + ": source " + std::to_string(i) + " of this virtual dataset (" +
                                          piece.file + ": " + piece.dataset +
                                          ") is not one whole block; copy the dataset with h5repack");
    piece.in_virtual = *in_virtual;
    piece.in_source = *in_source;
    index.pieces.push_back(std::move(piece));
  }
  return Done{};
}

// Ranges that do not end inside the file are taken out of the list and remembered in words.
void drop_out_of_file(const Object& dataset, DatasetIndex& index) {
  for (std::uint64_t i = 0; i < index.chunks.size(); ++i) {
    ByteRange& r = index.chunks[i];
    if (!r.present()) continue;
    const std::uint64_t size = dataset.file->bytes;
    if (r.bytes <= size && r.offset <= size - r.bytes) continue;
    if (index.n_out_of_file++ == 0)
      index.out_of_file =
          dataset.where() + (index.layout == Layout::chunked ? " chunk " + std::to_string(i) + " lies" : " lies") +
          " at bytes " + std::to_string(r.offset) + " to " +
          std::to_string(checked_add(r.offset, r.bytes).value_or(~0ull)) + ", the file has " + std::to_string(size);
    if (index.layout == Layout::contiguous && !dataset.file->cut_off.empty() && r.offset < size)
      r.bytes = size - r.offset;
    else
      r = {};
  }
}

// The array of a chunked dataset; index.type, .filters and .chunk are set.
Result<ChunkedArray> chunked_array(const Object& dataset, hid_t made, const Space& space, DatasetIndex& index) {
  const std::size_t rank = space.shape.size();
  std::vector<hsize_t> chunk(rank);
  if (H5Pget_chunk(made, static_cast<int>(rank), chunk.data()) != static_cast<int>(rank))
    return Error(Code::corrupt_data, dataset.where() + ": the chunk shape cannot be read");
  index.chunk.assign(chunk.begin(), chunk.end());
  ChunkedArray array{space.shape, space.max_shape, index.chunk, {}, 1, index.type.bytes, !index.filters.empty()};
  for (std::size_t d = 0; d < rank; ++d) {
    const auto bytes = checked_multiply(array.chunk_bytes, index.chunk[d]);
    if (index.chunk[d] == 0 || !bytes || *bytes > kMaxChunkBytes)
      return Error(Code::unsupported, dataset.where() + ": a chunk has more than " + std::to_string(kMaxChunkBytes) +
                                          " bytes; copy the file with smaller chunks (h5repack -l CHUNK=...)");
    array.chunk_bytes = *bytes;
  }
  array.grid = chunk_grid(space.shape, index.chunk);
  // Every stored chunk takes at least 8 bytes of index, so a much larger grid is mostly holes: refused before memory is taken.
  const std::uint64_t most = std::max<std::uint64_t>(std::uint64_t{1} << 22, dataset.file->bytes / 8);
  for (const std::uint64_t n : array.grid) {
    const auto product = checked_multiply(array.n_chunks, n);
    if (!product || *product > most)
      return Error(Code::unsupported, dataset.where() + ": the declared shape has more than " + std::to_string(most) +
                                          " chunks, far more than the file can hold");
    array.n_chunks = *product;
  }
  return array;
}

// The data layout message, where this program knows the kind of object header.
std::optional<LayoutMessage> layout_of(const Object& dataset) {
  H5O_info_t info;
  if (!dataset.file->raw->is_open() || !dataset.file->has_wide_addresses() ||
      H5Oget_info2(dataset.id.get(), &info, H5O_INFO_BASIC) < 0)
    return std::nullopt;
  return read_layout(*dataset.file->raw, info.addr);
}

// Whether this program reads the index itself.
bool is_read_here(const std::optional<LayoutMessage>& layout, const DatasetIndex& index) {
  return layout && layout->kind == LayoutMessage::Class::chunked && layout->chunk == index.chunk;
}

Result<Done> index_chunked(const Object& dataset, hid_t made, const std::optional<LayoutMessage>& layout,
                           const Space& space, DatasetIndex& index) {
  QUANTEM_TRY_ASSIGN(array, chunked_array(dataset, made, space, index));
  if (!is_read_here(layout, index)) return chunks_by_library(dataset, index, array, index.chunks);
  const File& file = *dataset.file;
  std::vector<ChunkIndexTask> tasks;
  if (const auto ahead = file.read_ahead.find(layout->address); ahead != file.read_ahead.end()) {
    if (ahead->second.array == array) tasks.push_back(std::move(ahead->second));
    file.read_ahead.erase(ahead);
  }
  if (tasks.empty()) {
    tasks.push_back({file.raw.get(), *layout, array, !file.cut_off.empty(), {}, {}, false});
    read_chunk_indices(tasks);
  }
  if (tasks[0].error) return damaged_in(file, dataset.where() + ": " + tasks[0].error->message);
  index.chunks = std::move(tasks[0].chunks);
  index.index_cut_off = tasks[0].lost;
  return Done{};
}

}  // namespace

ElementType element_type(const Object& dataset) {
  ElementType t;
  Id type(H5Dget_type(dataset.id.get()), H5Tclose);
  if (!type) return t;
  t.bytes = static_cast<std::uint32_t>(H5Tget_size(type.get()));
  t.big_endian = H5Tget_order(type.get()) == H5T_ORDER_BE;
  const std::string bits = std::to_string(8 * std::uint64_t{t.bytes});
  switch (H5Tget_class(type.get())) {
    case H5T_INTEGER:
      t.is_signed = H5Tget_sign(type.get()) == H5T_SGN_2;
      t.name = (t.is_signed ? "int" : "uint") + bits;
      if (H5Tget_precision(type.get()) == 8 * std::size_t{t.bytes})
        t.kind = ElementType::Kind::integer;
      else
        t.name = std::to_string(H5Tget_precision(type.get())) + "-bit integer in " + std::to_string(t.bytes) + " bytes";
      break;
    case H5T_FLOAT:
      t.name = "float" + bits;
      t.is_signed = true;
      if (t.bytes != 4 || H5Tequal(type.get(), H5T_IEEE_F32LE) > 0 || H5Tequal(type.get(), H5T_IEEE_F32BE) > 0)
        t.kind = ElementType::Kind::floating;
      break;
    case H5T_COMPOUND:
      t.name = "compound";
      break;
    case H5T_STRING:
      t.name = "string";
      if (H5Tis_variable_str(type.get()) > 0) t.bytes = 16;  // as stored: length, heap and number there
      break;
    case H5T_ENUM:
      t.name = "enum";
      break;
    case H5T_OPAQUE:
      t.name = "opaque";
      break;
    default:
      t.name = "other";
      break;
  }
  return t;
}

Result<Dtype> count_dtype(const ElementType& t, const std::string& where) {
  if (t.kind == ElementType::Kind::integer && !t.is_signed) {
    if (t.bytes == 1) return Dtype::u8;
    if (t.bytes == 2) return Dtype::u16;
    if (t.bytes == 4) return Dtype::u32;
  }
  if (t.kind == ElementType::Kind::integer && t.is_signed) {
    if (t.bytes == 2) return Dtype::i16;
    if (t.bytes == 4) return Dtype::i32;
  }
  if (t.kind == ElementType::Kind::floating && t.bytes == 4) return Dtype::f32;
  const char* to = t.kind == ElementType::Kind::floating                  ? "float32"
                   : t.kind == ElementType::Kind::integer && t.bytes == 1 ? "int16 (or uint8 when nothing is negative)"
                   : t.kind == ElementType::Kind::integer && t.is_signed  ? "int32 or, when nothing is negative, uint32"
                                                                          : "uint32";
  return Error(Code::unsupported, where + ": values are " + t.name +
                                      "; uint8, uint16, uint32, int16, int32 and float32 are read: " +
                                      "convert them, for example with NumPy .astype to " + to);
}

std::vector<std::uint64_t> chunk_grid(const std::vector<std::uint64_t>& shape,
                                      const std::vector<std::uint64_t>& chunk) {
  std::vector<std::uint64_t> grid;
  for (std::size_t d = 0; d < shape.size(); ++d) grid.push_back(shape[d] / chunk[d] + (shape[d] % chunk[d] != 0));
  return grid;
}

Result<std::vector<std::uint64_t>> dataset_shape(const Object& dataset) {
  const auto space = dataset.is_dataset() ? space_of(dataset.id.get()) : std::nullopt;
  if (!space) return Error(Code::unsupported, dataset.where() + ": not a dataset with a shape");
  return space->shape;
}

Result<DatasetIndex> index_dataset(const Object& dataset) {
  if (!dataset.is_dataset()) return Error(Code::unsupported, dataset.where() + ": not a dataset");
  const hid_t id = dataset.id.get();
  const auto space = space_of(id);
  Id made(H5Dget_create_plist(id), H5Pclose);
  if (!space || !made) return Error(Code::corrupt_data, dataset.where() + ": the dataset's description cannot be read");
  DatasetIndex index;
  index.type = element_type(dataset);
  index.shape = space->shape;
  std::uint64_t bytes = index.type.bytes;
  for (const std::uint64_t n : index.shape) {
    const auto product = checked_multiply(bytes, n);
    if (!product) return Error(Code::corrupt_data, dataset.where() + ": the shape has more than 2^64 bytes");
    bytes = *product;
  }
  const H5D_layout_t layout_class = H5Pget_layout(made.get());
  if (layout_class == H5D_VIRTUAL) {
    index.layout = Layout::virtual_;
    QUANTEM_TRY(read_pieces(dataset, made.get(), index));
    return index;
  }
  if (H5Pget_external_count(made.get()) > 0)
    return Error(Code::unsupported,
                 dataset.where() + ": values lie in external raw files; copy the dataset with h5repack");
  index.filters = filters_of(made.get());
  unsigned chunk_options = 0;
  if (layout_class == H5D_CHUNKED && H5Pget_chunk_opts(made.get(), &chunk_options) >= 0)
    index.partial_edge_chunks_unfiltered = chunk_options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS;

  const Superblock& super = dataset.file->superblock;
  const std::optional<LayoutMessage> layout = layout_of(dataset);
  if (layout_class == H5D_CHUNKED) {
    index.layout = Layout::chunked;
    QUANTEM_TRY(index_chunked(dataset, made.get(), layout, *space, index));
  } else if (layout_class == H5D_COMPACT) {
    index.layout = Layout::compact;
    if (!layout || layout->kind != LayoutMessage::Class::compact)
      return Error(Code::unsupported,
                   dataset.where() + ": compact dataset behind an unknown object header; use h5repack");
    index.chunks = {{layout->address + super.base, layout->bytes, 0}};
  } else {
    ByteRange range{ByteRange::kAbsent, bytes, 0};
    if (layout && layout->kind == LayoutMessage::Class::contiguous) {
      const auto at = checked_add(layout->address, super.base);
      if (layout->address != kNoAddress && !at)
        return Error(Code::corrupt_data, dataset.where() + ": the address of its values passes 2^64");
      if (layout->address != kNoAddress) range.offset = *at;
    } else if (super.base == 0) {
      const haddr_t at = H5Dget_offset(id);
      if (at != HADDR_UNDEF) range.offset = at;
    } else {
      return Error(Code::unsupported, dataset.where() + ": contiguous dataset behind a user block; use h5repack");
    }
    index.chunks = {range};
  }
  if (index.layout == Layout::compact && index.chunks[0].bytes < bytes)
    return Error(Code::corrupt_data, dataset.where() + ": a compact dataset shorter than its shape");
  drop_out_of_file(dataset, index);
  return index;
}

void read_ahead(std::span<const Object* const> datasets) {
  std::vector<ChunkIndexTask> tasks;
  std::vector<const File*> files;
  for (const Object* dataset : datasets) {
    if (!dataset->is_dataset()) continue;
    const auto space = space_of(dataset->id.get());
    Id made(H5Dget_create_plist(dataset->id.get()), H5Pclose);
    if (!space || !made || H5Pget_layout(made.get()) != H5D_CHUNKED) continue;
    DatasetIndex index;
    index.type = element_type(*dataset);
    index.filters = filters_of(made.get());
    auto array = chunked_array(*dataset, made.get(), *space, index);
    auto layout = layout_of(*dataset);
    if (!array || !is_read_here(layout, index)) continue;  // index_dataset says what is wrong
    tasks.push_back({dataset->file->raw.get(),
                     *std::move(layout),
                     *std::move(array),
                     !dataset->file->cut_off.empty(),
                     {},
                     {},
                     false});
    files.push_back(dataset->file.get());
  }
  read_chunk_indices(tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i)
    files[i]->read_ahead.try_emplace(tasks[i].layout.address, std::move(tasks[i]));
}

}  // namespace quantem::hdf5
