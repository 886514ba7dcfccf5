#include "quantem/io/dataset_bytes.h"

#include <algorithm>
#include <set>

#include "quantem/io/chunk_box.h"
#include "quantem/io/dataset_bytes_locked.h"
#include "quantem/io/hdf5_index.h"
#include "quantem/io/read_file.h"

namespace quantem {
namespace {
using hdf5::DatasetIndex;
using hdf5::Object;

Result<Done> read_chunks(const Object& dataset, const DatasetIndex& index, const ReadOnlyFile& file,
                         DatasetBytes& out) {
  const std::size_t rank = index.shape.size();
  const std::vector<std::uint64_t> grid = hdf5::chunk_grid(index.shape, index.chunk), origin(rank, 0);
  std::uint64_t chunk_bytes = index.type.bytes;
  for (const std::uint64_t n : index.chunk) chunk_bytes *= n;
  std::vector<std::byte> stored, chunk(chunk_bytes);
  std::vector<std::uint64_t> at(rank);
  DecodeScratch scratch;
  for (std::uint64_t flat = 0; flat < index.chunks.size(); ++flat) {
    const ByteRange& range = index.chunks[flat];
    const std::string where = dataset.where() + " chunk " + std::to_string(flat);
    if (!range.present())
      return Error(Code::missing_data,
                   where + " was never written" + (index.out_of_file.empty() ? "" : "; " + index.out_of_file));
    std::uint64_t rest = flat;
    bool partial = false;
    for (std::size_t d = rank; d-- > 0;) {
      at[d] = rest % grid[d] * index.chunk[d];
      rest /= grid[d];
      partial = partial || at[d] + index.chunk[d] > index.shape[d];
    }
    stored.resize(range.bytes);
    if (auto read = file.read(range.offset, stored); !read) return with_context(where, read.error());
    const bool plain = partial && index.partial_edge_chunks_unfiltered;
    const ChunkFault fault = decode_chunk(stored, plain ? FilterPipeline{} : index.filters, range.filter_mask,
                                          index.type.bytes, chunk, scratch);
    if (!fault.ok()) return Error(Code::corrupt_data, where + ": " + describe(fault));
    copy_box(chunk.data(), index.chunk.data(), at.data(), out.bytes.data(), index.shape.data(), origin.data(), rank,
             index.type.bytes);
  }
  return Done{};
}

void collect(const Object& group, std::size_t limit, int depth, std::set<std::uint64_t>& seen,
             std::vector<std::string>& found) {
  if (depth > 32) return;
  for (const hdf5::Link& link : hdf5::list_links(group, limit)) {
    if (found.size() >= limit || seen.size() > 8 * limit) return;
    if (link.kind != hdf5::LinkKind::hard) continue;
    auto opened = hdf5::open_member(group, link.name);
    if (!opened) continue;
    const Object& member = *opened;
    if (member.is_dataset()) found.push_back(member.path);
    H5O_info_t info;
    if (member.is_group() && H5Oget_info2(member.id.get(), &info, H5O_INFO_BASIC) >= 0 && seen.insert(info.addr).second)
      collect(member, limit, depth + 1, seen, found);
  }
}

}  // namespace

Result<DatasetBytes> read_dataset_bytes_locked(const Object& dataset, std::uint64_t most_bytes) {
  QUANTEM_TRY_ASSIGN(index, hdf5::index_dataset(dataset));
  if (index.layout == hdf5::Layout::virtual_)
    return Error(Code::unsupported, dataset.where() + ": a virtual dataset; read its sources");
  DatasetBytes out;
  out.type = index.type.name;
  out.item_bytes = index.type.bytes;
  out.big_endian = index.type.big_endian;
  out.is_signed = index.type.is_signed;
  out.shape = index.shape;
  std::uint64_t bytes = index.type.bytes;
  for (const std::uint64_t n : index.shape) bytes *= n;  // index_dataset checked the product
  if (bytes > most_bytes)
    return Error(Code::unsupported, dataset.where() + ": " + std::to_string(bytes) + " bytes, at most " +
                                        std::to_string(most_bytes) + " are read whole");
  if (auto good = check_supported(index.filters); !good) return with_context(dataset.where(), good.error());
  if (bytes == 0) return out;
  QUANTEM_TRY_ASSIGN(file, ReadOnlyFile::open(dataset.file->real_path));
  if (index.layout == hdf5::Layout::chunked) {
    out.bytes.resize(bytes);
    QUANTEM_TRY(read_chunks(dataset, index, file, out));
    return out;
  }
  if (!index.chunks[0].present())
    return Error(Code::missing_data,
                 dataset.where() + " was never written" + (index.out_of_file.empty() ? "" : "; " + index.out_of_file));
  if (index.chunks[0].bytes < bytes)
    return hdf5::damaged_in(*dataset.file, dataset.where() + ": stored bytes are fewer than the shape needs");
  out.bytes.resize(bytes);
  if (auto read = file.read(index.chunks[0].offset, out.bytes); !read)
    return with_context(dataset.where(), read.error());
  return out;
}

Result<DatasetBytes> read_dataset_bytes(const std::filesystem::path& path, std::string_view dataset,
                                        std::uint64_t most_bytes) {
  const hdf5::Lock lock;
  QUANTEM_TRY_ASSIGN(file, hdf5::open_file(path));
  QUANTEM_TRY_ASSIGN(object, hdf5::find_object(file, dataset));
  return read_dataset_bytes_locked(object, most_bytes);
}

Result<std::vector<std::string>> list_datasets_locked(const std::shared_ptr<const hdf5::File>& file,
                                                      std::size_t limit) {
  QUANTEM_TRY_ASSIGN(root, hdf5::find_object(file, "/"));
  std::set<std::uint64_t> seen;
  std::vector<std::string> found;
  collect(root, limit, 0, seen, found);
  return found;
}

Result<std::vector<std::string>> list_datasets(const std::filesystem::path& path, std::size_t limit) {
  const hdf5::Lock lock;
  QUANTEM_TRY_ASSIGN(file, hdf5::open_file(path));
  return list_datasets_locked(file, limit);
}

}  // namespace quantem
