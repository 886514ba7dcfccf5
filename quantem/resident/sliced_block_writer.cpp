#include "quantem/resident/sliced_block_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

namespace quantem {
namespace {

// Set bits of 512, without a popcount instruction (the program runs on any x86-64): carry-save adders first.
std::uint32_t count_bits(const std::uint32_t* plane) {
  std::uint64_t x[8];
  std::memcpy(x, plane, sizeof x);
  const auto add = [](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t& carry) {
    const std::uint64_t u = a ^ b;
    carry = (a & b) | (u & c);
    return u ^ c;
  };
  const auto bits = [](std::uint64_t v) {
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<std::uint32_t>(v * 0x0101010101010101u >> 56);
  };
  std::uint64_t twos_a, twos_b, twos_c, fours_a, fours_b, eights;
  std::uint64_t ones = add(x[0], x[1], x[2], twos_a);
  ones = add(ones, x[3], x[4], twos_b);
  ones = add(ones, x[5], x[6], twos_c);
  std::uint64_t twos_d;
  ones = add(ones, x[7], 0, twos_d);
  std::uint64_t twos = add(twos_a, twos_b, twos_c, fours_a);
  twos = add(twos, twos_d, 0, fours_b);
  const std::uint64_t fours = add(fours_a, fours_b, 0, eights);
  return bits(ones) + 2 * bits(twos) + 4 * bits(fours) + 8 * bits(eights);
}

// The smallest width whose planes above are all listable: fewer than kListThreshold bits each, at most kMaxListed
// together, and nothing above plane kMaxListedPlane.
template <class CountOf>
BlockWriter::Cut cut_planes(std::uint32_t n_planes, CountOf&& count_of) {
  std::uint32_t width = n_planes, n_listed = 0;
  while (width > 0) {
    const std::uint32_t n = count_of(width - 1);
    if (n >= kListThreshold || n_listed + n > kMaxListed || (n > 0 && width - 1 > kMaxListedPlane)) break;
    n_listed += n;
    --width;
  }
  return {width, n_listed};
}

}  // namespace

void BlockWriter::start(std::uint32_t n_streams) {
  n_streams_ = n_streams;
  n_added_ = 0;
  plane_bytes_ = 0;
  n_lists_ = 0;
  too_large_ = out_of_memory_ = false;
  entry_.resize(n_streams);
  list_end_.resize(n_streams);
  list_base_.resize((std::uint64_t{n_streams} + 63) / 64);
}

bool BlockWriter::reserve_planes(std::uint64_t n_bytes) {
  const std::uint64_t need = plane_bytes_ + n_bytes;
  if (need <= planes_.n_bytes()) return true;
  Buffer larger(std::max(need + need / 2, std::uint64_t{1} << 16));
  if (!larger.data()) return false;
  if (plane_bytes_) std::memcpy(larger.data(), planes_.data(), plane_bytes_);
  planes_ = std::move(larger);
  return true;
}

std::uint32_t* BlockWriter::next_planes() {
  if (!reserve_planes(std::uint64_t{kMaxPlanes + 1} * kPlaneBytes)) {
    out_of_memory_ = true;
    plane_bytes_ = 0;  // overwrites what is there: the block is lost anyway
    if (!planes_.data()) return nullptr;
  }
  return reinterpret_cast<std::uint32_t*>(planes_.data() + plane_bytes_);
}

void BlockWriter::add_stream(const std::uint32_t* planes, std::uint32_t n_planes) {
  std::uint32_t* to = next_planes();
  if (!to) return;
  if (n_planes) std::memcpy(to, planes, std::uint64_t{n_planes} * kPlaneBytes);
  commit(n_planes);
}

BlockWriter::Cut BlockWriter::cut(std::uint32_t n_planes, const std::uint16_t* set_bits) {
  return cut_planes(n_planes, [&](std::uint32_t p) { return std::uint32_t{set_bits[p]}; });
}

void BlockWriter::commit(std::uint32_t n_planes) {
  if (!planes_.data()) return;
  const auto* planes = reinterpret_cast<const std::uint32_t*>(planes_.data() + plane_bytes_);
  store_listing(cut_planes(n_planes, [&](std::uint32_t p) { return count_bits(planes + p * kPlaneWords); }), n_planes);
}

void BlockWriter::commit(std::uint32_t n_planes, const std::uint16_t* set_bits) {
  if (planes_.data()) store_listing(cut(n_planes, set_bits), n_planes);
}

void BlockWriter::store_listing(const Cut& cut, std::uint32_t n_planes) {
  const auto* planes = reinterpret_cast<const std::uint32_t*>(planes_.data() + plane_bytes_);
  std::uint16_t* out = store(cut);
  for (std::uint32_t p = cut.width, left = cut.n_listed; p < n_planes && left; ++p)
    for (std::uint32_t k = 0; k < kPlaneWords && left; ++k)
      for (std::uint32_t word = planes[p * kPlaneWords + k]; word; word &= word - 1, --left)
        *out++ = listed_bit(32 * k + static_cast<std::uint32_t>(std::countr_zero(word)), p);
}

std::uint16_t* BlockWriter::store(const Cut& cut) {
  if (lists_.size() < n_lists_ + kMaxListed + kListSlack) lists_.resize(2 * n_lists_ + 4 * kMaxListed);
  std::uint16_t* const list = lists_.data() + n_lists_;
  if (n_added_ >= n_streams_) {
    ++n_added_;  // finish() refuses
    return list;
  }
  const std::uint32_t stream = n_added_++;
  if (stream % 64 == 0) list_base_[stream / 64] = static_cast<std::uint32_t>(n_lists_);
  if (n_lists_ > std::numeric_limits<std::uint32_t>::max() - kMaxListed) too_large_ = true;  // list_base is u32
  n_lists_ += cut.n_listed;
  list_end_[stream] = static_cast<std::uint16_t>(n_lists_ - list_base_[stream / 64]);
  entry_[stream] = static_cast<std::uint32_t>(plane_bytes_) | cut.width;
  if (plane_bytes_ + std::uint64_t{cut.width} * kPlaneBytes > max_plane_bytes_)
    too_large_ = true;  // later streams overwrite this one's planes
  else
    plane_bytes_ += std::uint64_t{cut.width} * kPlaneBytes;
  return list;
}

Result<EncodedBlock> BlockWriter::finish() {
  if (out_of_memory_ || (n_streams_ && !planes_.data()))
    return Error{Code::out_of_memory, "encode: no memory for the planes of a block of 512 positions (" +
                                          std::to_string(n_streams_) + " streams)"};
  if (too_large_)
    return Error{Code::unsupported, "encode: the planes of a block of 512 positions pass " +
                                        std::to_string(max_plane_bytes_) + " bytes (" + std::to_string(n_streams_) +
                                        " streams): keep the counts dense (representation=\"dense\"), or load a "
                                        "scan_region or detector_region, or bin (det_bin)"};
  if (n_added_ != n_streams_)
    return Error{Code::internal, "encode: " + std::to_string(n_added_) + " streams were added, the layout has " +
                                     std::to_string(n_streams_)};
  const std::uint64_t entry_at = plane_bytes_, base_at = entry_at + entry_.size() * sizeof entry_[0];
  const std::uint64_t end_at = base_at + list_base_.size() * sizeof list_base_[0];
  const std::uint64_t lists_at = end_at + list_end_.size() * sizeof list_end_[0];
  QUANTEM_TRY_ASSIGN(bytes, allocate_buffer(lists_at + n_lists_ * sizeof lists_[0], "encode"));
  std::byte* to = bytes.data();
  const auto copy = [to](std::uint64_t at, const void* from, std::uint64_t n) {
    if (n) std::memcpy(to + at, from, n);
  };
  copy(0, planes_.data(), plane_bytes_);
  copy(entry_at, entry_.data(), base_at - entry_at);
  copy(base_at, list_base_.data(), end_at - base_at);
  copy(end_at, list_end_.data(), lists_at - end_at);
  copy(lists_at, lists_.data(), n_lists_ * sizeof lists_[0]);
  const SlicedBlock block{
      to, reinterpret_cast<const std::uint32_t*>(to + entry_at), reinterpret_cast<const std::uint16_t*>(to + end_at),
      reinterpret_cast<const std::uint32_t*>(to + base_at), reinterpret_cast<const std::uint16_t*>(to + lists_at)};
  return EncodedBlock{std::move(bytes), block};
}

}  // namespace quantem
