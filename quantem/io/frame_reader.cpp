#include "quantem/io/frame_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quantem/io/chunk_box.h"
#include "quantem/io/part_layout.h"
#include "quantem/io/read_file.h"

namespace quantem {
namespace {

void swap_bytes(std::byte* p, std::uint64_t n, std::size_t item) {
  for (std::uint64_t i = 0; i < n; ++i, p += item) std::reverse(p, p + item);
}

// n values of type From at `from` become To at `to`.
template <class From, class To>
void widen(const std::byte* from, std::byte* to, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof value);
    const To wide = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &wide, sizeof wide);
  }
}

// Only widenings that agree() admits: unsigned to unsigned, signed to signed.
void convert(Dtype from, Dtype to, const std::byte* in, std::byte* out, std::uint64_t n) {
  if (from == to)
    std::memcpy(out, in, n * item_bytes(from));
  else if (from == Dtype::u8 && to == Dtype::u16)
    widen<std::uint8_t, std::uint16_t>(in, out, n);
  else if (from == Dtype::u8)
    widen<std::uint8_t, std::uint32_t>(in, out, n);
  else if (from == Dtype::u16)
    widen<std::uint16_t, std::uint32_t>(in, out, n);
  else
    widen<std::int16_t, std::int32_t>(in, out, n);
}

}  // namespace

struct FrameReader::State {
  Container container;
  std::vector<ReadOnlyFile> files;  // by container.files; those without frames stay closed

  [[nodiscard]] std::string where(const Part& part, std::uint64_t local) const {
    const std::string name = part.file < container.files.size() ? container.files[part.file].filename().string() : "";
    return name + ": " + (part.dataset.empty() ? "" : part.dataset + " ") + "frame " + std::to_string(local);
  }
  [[nodiscard]] Result<Done> read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const {
    if (file >= files.size() || !files[file].is_open())
      return Error(Code::io, "file " + std::to_string(file) + " is not open");
    return files[file].read(offset, out);
  }
  std::optional<FrameFault> contiguous(const Part& part, std::uint64_t local, std::span<std::byte> raw) const;
  std::optional<FrameFault> chunked(const Part& part, std::uint64_t local, std::span<std::byte> raw,
                                    Scratch& scratch) const;
  std::optional<FrameFault> load_chunk(const Part& part, std::uint64_t chunk, bool plain, const std::string& frame,
                                       Scratch& scratch) const;
};

Result<FrameReader> FrameReader::open(const Container& container) {
  auto state = std::make_shared<State>();
  state->container = container;
  state->files.resize(container.files.size());
  for (const Part& part : container.parts) {
    if (!part.absent_reason.empty()) continue;
    if (part.file >= state->files.size())
      return Error(Code::internal, "a part names file " + std::to_string(part.file) + "; report this");
    ReadOnlyFile& file = state->files[part.file];
    if (file.is_open()) continue;
    QUANTEM_TRY_ASSIGN(opened, ReadOnlyFile::open(container.files[part.file]));
    file = std::move(opened);
  }
  FrameReader reader;
  reader.state_ = std::move(state);
  return reader;
}

Result<Done> FrameReader::read_bytes(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const {
  return state_->read(file, offset, out);
}

std::optional<FrameFault> FrameReader::State::contiguous(const Part& part, std::uint64_t local,
                                                         std::span<std::byte> raw) const {
  const ByteRange& all = part.chunks[0];
  const auto at = checked_multiply(local, part.frame_stride_bytes);
  if (!at || *at > all.bytes || raw.size() > all.bytes - *at)
    return FrameFault{false, where(part, local) + ": past the end of the stored values"};
  if (auto good = read(part.file, all.offset + *at, raw); !good)
    return FrameFault{false, where(part, local) + ": " + good.error().message};
  return std::nullopt;
}

// Decodes one chunk into scratch.chunk, unless it is there from the call before.
std::optional<FrameFault> FrameReader::State::load_chunk(const Part& part, std::uint64_t chunk, bool plain,
                                                         const std::string& frame, Scratch& scratch) const {
  const auto part_number = static_cast<std::uint64_t>(&part - container.parts.data());
  if (scratch.cached_part == part_number && scratch.cached_chunk == chunk) return std::nullopt;
  scratch.cached_part = scratch.cached_chunk = ~std::uint64_t{0};
  const ByteRange& range = part.chunks[chunk];
  if (!range.present()) return FrameFault{true, frame + " has no stored bytes (never written, or cut off)"};
  std::uint64_t bytes = item_bytes(part.dtype);
  for (const std::uint64_t n : part.chunk) bytes *= n;
  scratch.stored.resize(range.bytes);
  scratch.chunk.resize(bytes);
  if (auto good = read(part.file, range.offset, scratch.stored); !good)
    return FrameFault{false, frame + ": " + good.error().message};
  const ChunkFault fault = decode_chunk(scratch.stored, plain ? FilterPipeline{} : part.filters, range.filter_mask,
                                        item_bytes(part.dtype), scratch.chunk, scratch.decode);
  if (!fault.ok()) return FrameFault{false, frame + ": " + describe(fault)};
  scratch.cached_part = part_number;
  scratch.cached_chunk = chunk;
  return std::nullopt;
}

std::optional<FrameFault> FrameReader::State::chunked(const Part& part, std::uint64_t local, std::span<std::byte> raw,
                                                      Scratch& scratch) const {
  const FrameInPart place = place_of(part, local);
  const std::size_t rank = part.shape.size();
  const std::uint64_t box[2] = {part.shape[rank - 2], part.shape[rank - 1]}, origin[2] = {0, 0};
  const std::uint64_t chunk[2] = {part.chunk[rank - 2], part.chunk[rank - 1]};
  const std::uint64_t frame_in_chunk_bytes = place.frame_in_chunk * chunk[0] * chunk[1] * item_bytes(part.dtype);
  for (std::uint64_t i = 0; i < place.n_chunks(); ++i) {
    const std::uint64_t at[2] = {i / place.chunk_cols * chunk[0], i % place.chunk_cols * chunk[1]};
    const bool partial = place.partial || at[0] + chunk[0] > box[0] || at[1] + chunk[1] > box[1];
    if (auto fault = load_chunk(part, place.first_chunk + i, partial && part.partial_edge_chunks_unfiltered,
                                where(part, local), scratch))
      return fault;
    copy_box(scratch.chunk.data() + frame_in_chunk_bytes, chunk, at, raw.data(), box, origin, 2,
             item_bytes(part.dtype));
  }
  return std::nullopt;
}

std::optional<FrameFault> FrameReader::read_frame(std::uint64_t frame, std::span<std::byte> out,
                                                  Scratch& scratch) const {
  std::fill(out.begin(), out.end(), std::byte{0});
  const Container& c = state_->container;
  const std::uint64_t pixels = c.shape.frame_pixels();
  if (out.size() != pixels * item_bytes(c.dtype))
    return FrameFault{false, "read_frame: expected " + std::to_string(pixels * item_bytes(c.dtype)) + " bytes, found " +
                                 std::to_string(out.size())};
  const Part* part = find_part(c, frame);
  if (!part)
    return FrameFault{true, c.path.filename().string() + ": frame " + std::to_string(frame) + " is not stored"};
  if (!part->absent_reason.empty()) return FrameFault{true, part->absent_reason};
  const std::uint64_t local = frame - part->first_frame;
  if (!is_stored(*part, local))
    return FrameFault{true, state_->where(*part, local) + " has no stored bytes (never written, or cut off)"};
  if (part->shape.size() < 2 || part->shape[part->shape.size() - 2] * part->shape.back() != pixels)
    return FrameFault{false, state_->where(*part, local) + ": another detector shape than the other parts"};
  std::vector<std::byte> own;  // the part's values, where they are narrower than the container's
  std::span<std::byte> raw = out;
  if (part->dtype != c.dtype) {
    own.resize(pixels * item_bytes(part->dtype));
    raw = own;
  }
  auto fault =
      part->chunk.empty() ? state_->contiguous(*part, local, raw) : state_->chunked(*part, local, raw, scratch);
  if (fault) {
    std::fill(out.begin(), out.end(), std::byte{0});
    return fault;
  }
  if (part->big_endian != (std::endian::native == std::endian::big))
    swap_bytes(raw.data(), pixels, item_bytes(part->dtype));
  if (part->dtype != c.dtype) convert(part->dtype, c.dtype, own.data(), out.data(), pixels);
  return std::nullopt;
}

}  // namespace quantem
