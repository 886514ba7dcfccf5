#include "quantem/io/lz4_block.h"

#include <lz4.h>

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantem/io/lz4_block.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The blocks of detector counts are short sequences (86 in 8 KiB: few literals, matches of 4 to 18 bytes, half of them
// overlapping), so time goes to mispredicted branches and not to bytes. The short sequence is therefore free of
// branches: 16 literal bytes are copied whatever their number, and a match of any offset is one table lookup (the
// period of `offset` bytes spread over 16) and one 8-byte copy from a multiple of the offset behind.

HWY_BEFORE_NAMESPACE();
namespace quantem::HWY_NAMESPACE {
namespace {

// kPeriod[o][i] = i mod o: bytes of a match with offset o; row 16 serves every offset of 16 or more.
struct PeriodTable {
  alignas(16) std::uint8_t row[17][16];
  std::uint8_t back8[17], back16[17];  // multiple of the offset: the largest <= 16; the smallest >= 16
};
constexpr PeriodTable make_periods() {
  PeriodTable t{};
  for (unsigned o = 1; o <= 16; ++o) {
    for (unsigned i = 0; i < 16; ++i) t.row[o][i] = static_cast<std::uint8_t>(i % o);
    t.back8[o] = static_cast<std::uint8_t>(16 / o * o);
    t.back16[o] = static_cast<std::uint8_t>((16 + o - 1) / o * o);
  }
  return t;
}
constexpr PeriodTable kPeriods = make_periods();

HWY_INLINE void copy16(std::uint8_t* to, const std::uint8_t* from) {
  std::memcpy(to, from, 16);
}

// to[i] = from[i mod row] for 16 bytes; `from` may end where `to` begins. Reads 16 bytes, of which those past `from` +
// row do not matter.
HWY_INLINE void spread16(std::uint8_t* to, const std::uint8_t* from, std::size_t row) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < 16; ++i) to[i] = from[kPeriods.row[row][i]];
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::uint8_t, 16> d;
  hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, from), hn::Load(d, kPeriods.row[row])), d, to);
#endif
}

// Long or last sequences: every check, no assumption about room.
class Tail {
 public:
  const std::uint8_t *ip, *const in_end;
  std::uint8_t *op, *const out_begin, *const out_end;
  std::uint8_t* zeros_from = nullptr;  // set when the block ended in an unwritten run of zeros

  enum class Step : std::uint8_t { go_on, finished, fault };
  ChunkVerdict verdict = ChunkVerdict::ok;

  Step fail(ChunkVerdict why) {
    verdict = why;
    return Step::fault;
  }

  Step sequence() {
    if (ip == in_end) return fail(ChunkVerdict::lz4_truncated);
    const unsigned token = *ip++;
    std::size_t n_literals = token >> 4;
    if (n_literals == 15 && !extend(n_literals)) return fail(ChunkVerdict::lz4_truncated);
    if (n_literals > left_in()) return fail(ChunkVerdict::lz4_truncated);
    if (n_literals > left_out()) return fail(ChunkVerdict::lz4_overrun);
    copy_literals(n_literals);
    if (ip == in_end) return op == out_end ? Step::finished : fail(ChunkVerdict::lz4_short);
    if (left_in() < 2) return fail(ChunkVerdict::lz4_truncated);
    const std::size_t offset = ip[0] | static_cast<std::size_t>(ip[1]) << 8;
    ip += 2;
    if (offset - 1 >= static_cast<std::size_t>(op - out_begin)) {  // 0 wraps to the largest number
      ip -= 2;
      return fail(ChunkVerdict::lz4_offset);
    }
    std::size_t n_match = token & 15;
    if (n_match == 15 && !extend(n_match)) return fail(ChunkVerdict::lz4_truncated);
    n_match += 4;
    if (n_match > left_out()) return fail(ChunkVerdict::lz4_overrun);
    if (n_match >= 64 && ends_in_zeros(offset, n_match)) return Step::finished;
    copy_match(offset, n_match);
    return Step::go_on;
  }

  [[nodiscard]] std::size_t left_in() const { return static_cast<std::size_t>(in_end - ip); }
  [[nodiscard]] std::size_t left_out() const { return static_cast<std::size_t>(out_end - op); }

 private:
  bool extend(std::size_t& n) {
    unsigned more = 255;
    while (more == 255) {
      if (ip == in_end) return false;
      n += more = *ip++;
    }
    return true;
  }

  void copy_literals(std::size_t n) {
    if (left_in() >= n + 16 && left_out() >= n + 16) {
      for (std::size_t i = 0; i < n; i += 16) copy16(op + i, ip + i);
    } else if (n != 0) {
      std::memcpy(op, ip, n);
    }
    ip += n;
    op += n;
  }

  void copy_match(std::size_t offset, std::size_t n) {
    const std::uint8_t* match = op - offset;
    std::uint8_t* const end = op + n;
    if (offset == 1) {
      std::memset(op, *match, n);
      op = end;
      return;
    }
    if (left_out() >= 16) {
      const std::size_t row = std::min<std::size_t>(offset, 16);
      spread16(op, match, row);
      const std::size_t back = offset >= 16 ? offset : kPeriods.back16[row];
      op += std::min<std::size_t>(n, 16);
      while (op < end && left_out() >= 16) {
        copy16(op, op - back);
        op += 16;
      }
      if (op > end) op = end;
      match = op - offset;
    }
    while (op < end) *op++ = *match++;
  }

  // A long run of zeros, then only zero literals, then the end: nothing needs to be written.
  bool ends_in_zeros(std::size_t offset, std::size_t n_match) {
    if (offset > 16 || left_in() == 0 || left_in() > 15) return false;
    for (std::size_t i = 1; i <= offset; ++i)
      if (op[-static_cast<std::ptrdiff_t>(i)] != 0) return false;
    const std::size_t n_literals = *ip >> 4;
    if (n_literals == 15 || n_literals + 1 != left_in() || n_match + n_literals != left_out()) return false;
    for (std::size_t i = 1; i <= n_literals; ++i)
      if (ip[i] != 0) return false;
    zeros_from = op;
    op = out_end;
    return true;
  }
};

Lz4Outcome decode(const std::uint8_t* in, std::size_t n_in, std::uint8_t* out, std::size_t n_out) {
  Tail t{in, in + n_in, out, out, out + n_out};
  for (;;) {
    const std::uint8_t* ip = t.ip;
    std::uint8_t* op = t.op;
    const std::size_t room_in = static_cast<std::size_t>(t.in_end - ip),
                      room_out = static_cast<std::size_t>(t.out_end - op);
    if (room_in >= 20 &&
        room_out >= 40) {  // 1 + 16 + 2 bytes are read; 14 literals and 16 + 8 bytes of match are written
      const std::uint8_t* const last_ip = t.in_end - 20;
      std::uint8_t* const last_op = t.out_end - 40;
      do {
        const unsigned token = *ip, n_match = token & 15;
        if (token >= 0xf0 || n_match == 15) break;
        copy16(op, ip + 1);
        const std::size_t n_literals = token >> 4;
        const std::uint8_t* const after = ip + 1 + n_literals;
        std::uint8_t* const to = op + n_literals;
        const std::size_t offset = static_cast<std::size_t>(after[0] | after[1] << 8);
        if (offset - 1 >= static_cast<std::size_t>(to - out))
          return {ChunkVerdict::lz4_offset, static_cast<std::uint64_t>(after - in), 0};
        const std::size_t row = std::min<std::size_t>(offset, 16);
        spread16(to, to - offset, row);
        const std::size_t back = offset >= 16 ? offset : kPeriods.back8[row];
        std::memcpy(to + 16, to + 16 - back, 8);
        ip = after + 2;
        op = to + n_match + 4;
      } while (ip <= last_ip && op <= last_op);
      t.ip = ip;
      t.op = op;
    }
    switch (t.sequence()) {
      case Tail::Step::go_on:
        break;
      case Tail::Step::finished:
        return {ChunkVerdict::ok, n_in, static_cast<std::uint64_t>((t.zeros_from ? t.zeros_from : t.out_end) - out)};
      case Tail::Step::fault:
        return {t.verdict, static_cast<std::uint64_t>(t.ip - in), 0};
    }
  }
}

}  // namespace

Lz4Outcome decode_block(const std::uint8_t* in, std::size_t n_in, std::uint8_t* out, std::size_t n_out) {
  return decode(in, n_in, out, n_out);
}

}  // namespace quantem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quantem {

HWY_EXPORT(decode_block);

Lz4Outcome decode_lz4_block(std::span<const std::byte> in, std::span<std::byte> out) {
  return HWY_DYNAMIC_DISPATCH(decode_block)(reinterpret_cast<const std::uint8_t*>(in.data()), in.size(),
                                            reinterpret_cast<std::uint8_t*>(out.data()), out.size());
}

Lz4Outcome decode_lz4_block_filled(std::span<const std::byte> in, std::span<std::byte> out) {
  Lz4Outcome outcome = decode_lz4_block(in, out);
  if (outcome.verdict == ChunkVerdict::ok && outcome.n_written < out.size()) {
    std::memset(out.data() + outcome.n_written, 0, out.size() - outcome.n_written);
    outcome.n_written = out.size();
  }
  return outcome;
}

std::size_t lz4_bound(std::size_t n_in) {
  return n_in + n_in / 255 + 16;
}

std::size_t encode_lz4_block(std::span<const std::byte> in, std::span<std::byte> out) {
  const int n = LZ4_compress_default(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
                                     static_cast<int>(in.size()), static_cast<int>(out.size()));
  return static_cast<std::size_t>(n);
}

}  // namespace quantem
#endif
