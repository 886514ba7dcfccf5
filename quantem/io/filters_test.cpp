// Chunk decoding: the vectors of QUANTEM_VECTORS/bslz4, hostile bytes, and chunks that this test makes with its own
// small writer.

#include "quantem/io/filters.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "quantem/io/bitshuffle.h"
#include "quantem/io/bslz4_planes.h"
#include "quantem/io/save.h"

namespace quantem {
namespace {

using Bytes = std::vector<std::byte>;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream f(path, std::ios::binary);
  const std::vector<char> c((std::istreambuf_iterator<char>(f)), {});
  Bytes b(c.size());
  if (!c.empty()) std::memcpy(b.data(), c.data(), c.size());
  return b;
}
Bytes npy_data(const std::filesystem::path& path) {  // version 1.0, written by the vectors' maker
  const Bytes b = read_file(path);
  const std::size_t header = 10 + std::to_integer<std::size_t>(b[8]) + 256 * std::to_integer<std::size_t>(b[9]);
  return {b.begin() + static_cast<std::ptrdiff_t>(header), b.end()};
}
std::size_t item_bytes_of(const std::string& dtype) {
  return dtype == "uint8" ? 1 : dtype == "uint16" ? 2 : 4;
}

ChunkFault decode(std::span<const std::byte> stored, const FilterPipeline& p, std::size_t item,
                  std::span<std::byte> out, std::uint32_t mask = 0) {
  DecodeScratch scratch;
  // A heap block of exactly the chunk's size, so that a sanitizer sees a read one byte past it.
  const Bytes exact(stored.begin(), stored.end());
  return decode_chunk(exact, p, mask, item, out, scratch);
}

void put_be(Bytes& to, std::uint64_t v, int n) {
  for (int i = n - 1; i >= 0; --i) to.push_back(static_cast<std::byte>(v >> (8 * i)));
}
void append(Bytes& to, std::span<const std::byte> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Planes by the definition, bit by bit.
Bytes planes_by_definition(std::span<const std::byte> elements, std::size_t s) {
  const std::size_t m = elements.size() / s;
  Bytes planes(elements.size());
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t b = 0; b < 8 * s; ++b)
      if (std::to_integer<unsigned>(elements[i * s + b / 8]) >> (b % 8) & 1)
        planes[b * (m / 8) + i / 8] |= std::byte(1 << (i % 8));
  return planes;
}
Bytes lz4(std::span<const std::byte> in) {
  Bytes out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(in.size()))));
  out.resize(static_cast<std::size_t>(LZ4_compress_default(reinterpret_cast<const char*>(in.data()),
                                                           reinterpret_cast<char*>(out.data()),
                                                           static_cast<int>(in.size()), static_cast<int>(out.size()))));
  return out;
}
Bytes zstd(std::span<const std::byte> in) {
  Bytes out(ZSTD_compressBound(in.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), in.data(), in.size(), 1));
  return out;
}
Bytes deflate_bytes(std::span<const std::byte> in) {
  uLongf n = compressBound(in.size());
  Bytes out(n);
  compress2(reinterpret_cast<Bytef*>(out.data()), &n, reinterpret_cast<const Bytef*>(in.data()), in.size(), 1);
  out.resize(n);
  return out;
}
Bytes shuffle_bytes(std::span<const std::byte> in, std::size_t s) {
  Bytes out(in.begin(), in.end());
  const std::size_t n = in.size() / s;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < s; ++k) out[k * n + i] = in[i * s + k];
  return out;
}
// code 0, 2 or 3; block in elements, 0 the default.
Bytes bitshuffle_chunk(std::span<const std::byte> in, std::size_t s, unsigned code, std::size_t block = 0) {
  if (block == 0) block = std::max<std::size_t>(128, 8192 / s / 8 * 8);
  const std::size_t n = in.size() / s;
  Bytes out;
  if (code != 0) {
    put_be(out, in.size(), 8);
    put_be(out, block * s, 4);
  }
  for (std::size_t first = 0; first < n;) {
    const std::size_t m = std::min(block, (n - first) / 8 * 8);
    if (m == 0) {
      append(out, in.subspan(first * s));
      break;
    }
    const Bytes planes = planes_by_definition(in.subspan(first * s, m * s), s);
    const Bytes packed = code == 2 ? lz4(planes) : code == 3 ? zstd(planes) : planes;
    if (code != 0) put_be(out, packed.size(), 4);
    append(out, packed);
    first += m;
  }
  return out;
}
Bytes lz4_framed(std::span<const std::byte> in, std::size_t block) {
  Bytes out;
  put_be(out, in.size(), 8);
  put_be(out, block, 4);
  for (std::size_t first = 0; first < in.size(); first += block) {
    const auto plain = in.subspan(first, std::min(block, in.size() - first));
    Bytes packed = lz4(plain);
    if (packed.size() >= plain.size()) packed.assign(plain.begin(), plain.end());
    put_be(out, packed.size(), 4);
    append(out, packed);
  }
  return out;
}
Filter bitshuffle_filter(std::size_t s, unsigned code) {
  return {32008, {0, 3, static_cast<std::uint32_t>(s), 0, code}};
}

// n elements of s bytes: f(i), little-endian.
template <class F>
Bytes elements(std::size_t n, std::size_t s, F f) {
  Bytes b(n * s);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t v = f(i);
    for (std::size_t k = 0; k < s; ++k) b[i * s + k] = static_cast<std::byte>(v >> (8 * k));
  }
  return b;
}
Bytes sparse_counts(std::size_t n, std::size_t s, unsigned seed) {
  std::mt19937 rng(seed);
  std::poisson_distribution<unsigned> low(0.5), high(8);
  return elements(n, s, [&](std::size_t i) {
    return i % 1000 < 200 ? high(rng) : i % 977 == 5 ? 4000000000u : low(rng);
  });
}

const nlohmann::json* vectors(std::filesystem::path& folder) {
  const char* root = std::getenv("QUANTEM_VECTORS");
  if (!root) return nullptr;
  folder = std::filesystem::path(root) / "bslz4";
  static const nlohmann::json manifest = nlohmann::json::parse(std::ifstream(folder / "manifest.json"), nullptr, false);
  return manifest.is_object() ? &manifest : nullptr;
}
FilterPipeline pipeline_of(const nlohmann::json& entry) {
  Filter f{entry["filter"].get<std::uint32_t>(), {}};
  if (entry.contains("cd_values"))
    f.client = entry["cd_values"].get<std::vector<std::uint32_t>>();
  else if (f.id == 32008)
    f.client = {0, 3, static_cast<std::uint32_t>(item_bytes_of(entry["dtype"])), 0, 2};
  return {f};
}

TEST(ChunkVectors, GoodFilesDecodeToTheirArrays) {
  std::filesystem::path folder;
  const nlohmann::json* manifest = vectors(folder);
  if (!manifest) GTEST_SKIP() << "QUANTEM_VECTORS is not set or has no bslz4/manifest.json";
  int n = 0;
  for (const auto& e : (*manifest)["files"]) {
    const Bytes truth = npy_data(folder / e["raw"]["file"].get<std::string>());
    const std::size_t s = item_bytes_of(e["dtype"]);
    Bytes out(e["count"].get<std::size_t>() * s);
    const ChunkFault fault = decode(read_file(folder / e["file"].get<std::string>()), pipeline_of(e), s, out);
    EXPECT_TRUE(fault.ok()) << e["file"] << ": " << describe(fault);
    EXPECT_TRUE(out == truth) << e["file"];
    ++n;
  }
  EXPECT_EQ(n, 17);
}

TEST(ChunkVectors, L21_BadFilesGiveTheirVerdict) {
  std::filesystem::path folder;
  const nlohmann::json* manifest = vectors(folder);
  if (!manifest) GTEST_SKIP() << "QUANTEM_VECTORS is not set or has no bslz4/manifest.json";
  int n = 0;
  for (const auto& e : (*manifest)["corrupt"]) {
    const std::size_t s = item_bytes_of(e["dtype"]);
    Bytes out(e["count"].get<std::size_t>() * s);
    const ChunkFault fault = decode(read_file(folder / e["file"].get<std::string>()), pipeline_of(e), s, out);
    EXPECT_EQ(verdict_name(fault.verdict), e["verdict"].get<std::string>()) << e["file"];
    ++n;
  }
  EXPECT_EQ(n, 15);
}

TEST(ChunkVectors, L21_EveryPrefixIsRefused) {
  std::filesystem::path folder;
  const nlohmann::json* manifest = vectors(folder);
  if (!manifest) GTEST_SKIP() << "QUANTEM_VECTORS is not set or has no bslz4/manifest.json";
  for (const auto& e : (*manifest)["files"]) {
    const Bytes stored = read_file(folder / e["file"].get<std::string>());
    const std::size_t s = item_bytes_of(e["dtype"]);
    Bytes out(e["count"].get<std::size_t>() * s);
    for (std::size_t n = 0; n < stored.size(); n += n < 300 || stored.size() - n < 300 ? 1 : 37)
      EXPECT_FALSE(decode(std::span(stored).first(n), pipeline_of(e), s, out).ok()) << e["file"] << " cut to " << n;
  }
}

TEST(ChunkVectors, L21_FlippedBitsAreRefusedOrDecodedWithinBounds) {
  std::filesystem::path folder;
  const nlohmann::json* manifest = vectors(folder);
  if (!manifest) GTEST_SKIP() << "QUANTEM_VECTORS is not set or has no bslz4/manifest.json";
  std::size_t n_refused = 0, n_decoded = 0;
  for (const auto& e : (*manifest)["files"]) {
    Bytes stored = read_file(folder / e["file"].get<std::string>());
    const std::size_t s = item_bytes_of(e["dtype"]);
    Bytes out(e["count"].get<std::size_t>() * s);
    const std::size_t n_bits = stored.size() * 8;
    for (std::size_t bit = 0; bit < n_bits; bit += bit < 1600 ? 1 : 61) {
      stored[bit / 8] ^= std::byte(1 << (bit % 8));
      const ChunkFault fault = decode(stored, pipeline_of(e), s, out);
      ++(fault.ok() ? n_decoded : n_refused);
      // The size word of a chunk with a header is known to the caller.
      const bool in_size_word = bit < 64 && e["file"] != "u16_none.bin";
      EXPECT_FALSE(fault.ok() && in_size_word) << e["file"] << ": size word, bit " << bit;
      stored[bit / 8] ^= std::byte(1 << (bit % 8));
    }
  }
  EXPECT_GT(n_refused, 1000u);
  EXPECT_GT(n_decoded, 1000u);  // a changed literal is another value, which no check can see
}

TEST(Filters, KnownAnswerByHand) {  // docs/formats.md, section 8
  const unsigned char bytes[] = {0,    0, 0, 0, 0,    0, 0, 0x18, 0, 0, 0x20, 0, 0, 0, 0,  0x0d, 0x43, 0xaa, 0xcc,
                                 0xf0, 0, 1, 0, 0x50, 0, 0, 0,    0, 0, 8,    0, 9, 0, 10, 0,    11,   0};
  Bytes out(24);
  const ChunkFault fault = decode(std::as_bytes(std::span(bytes)), {bitshuffle_filter(2, 2)}, 2, out);
  EXPECT_TRUE(fault.ok()) << describe(fault);
  EXPECT_EQ(out, elements(12, 2, [](std::size_t i) { return i; }));
}

TEST(Filters, L16_TheShorterLastBlockIsData) {
  const Bytes truth = elements(std::size_t{743} * 647, 2, [](std::size_t n) { return 7919 * n % 65521; });
  const Bytes stored = bitshuffle_chunk(truth, 2, 2);
  PlaneGeometry g;
  ASSERT_TRUE(plane_geometry(stored, bitshuffle_filter(2, 2), 2, truth.size(), g).ok());
  EXPECT_EQ(g.n_full_blocks, 117u);
  EXPECT_EQ(g.block_elements, 4096u);
  EXPECT_EQ(g.short_block_elements, 1488u);
  EXPECT_EQ(g.tail_elements, 1u);
  std::vector<std::uint16_t> values(480721);
  ASSERT_TRUE(decode(stored, {bitshuffle_filter(2, 2)}, 2, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::uint64_t{0}), 15748407488u);
  EXPECT_EQ(std::accumulate(values.end() - 1489, values.end(), std::uint64_t{0}), 48833502u);
  EXPECT_EQ(std::vector<std::uint16_t>(values.end() - 9, values.end()),
            (std::vector<std::uint16_t>{53749, 61668, 4066, 11985, 19904, 27823, 35742, 43661, 51580}));
  EXPECT_EQ(std::memcmp(values.data(), truth.data(), truth.size()), 0);
}

TEST(Filters, L16_SmallFramesOfEverySizeAndType) {
  for (const std::size_t s : {1u, 2u, 4u, 8u, 3u}) {
    for (const std::size_t side : {1u, 2u, 3u, 9u, 10u, 11u, 13u, 17u, 24u, 31u, 33u, 100u}) {
      const Bytes truth = elements(
          side * side, s, [&](std::size_t n) { return s == 1 ? 7919 * n % 65521 % 251 : 7919 * n * n % 4294967291u; });
      for (const unsigned code : {0u, 2u, 3u}) {
        for (const std::size_t block : {std::size_t{0}, std::size_t{8}, std::size_t{136}}) {
          Filter f = bitshuffle_filter(s, code);
          f.client[3] = static_cast<std::uint32_t>(block);
          Bytes out(truth.size(), std::byte{0xee});
          const ChunkFault fault = decode(bitshuffle_chunk(truth, s, code, block), {f}, s, out);
          EXPECT_TRUE(fault.ok()) << describe(fault);
          EXPECT_TRUE(out == truth) << "item " << s << " side " << side << " code " << code << " block " << block;
        }
      }
    }
  }
}

TEST(Filters, L16_OwnEncoderRoundTrip) {
  for (const std::size_t s : {1u, 2u, 4u}) {
    for (const std::size_t n :
         {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{36864}, std::size_t{743} * 647}) {
      const Bytes truth = sparse_counts(n, s, 9);
      Bytes stored, out(truth.size());
      encode_bslz4_chunk(truth, s, stored);
      const ChunkFault fault = decode(stored, {bitshuffle_filter(s, 2)}, s, out);
      EXPECT_TRUE(fault.ok()) << describe(fault);
      EXPECT_TRUE(out == truth) << s << " " << n;
    }
  }
  const Bytes twelve = elements(12, 2, [](std::size_t i) { return i; });
  Bytes stored;
  encode_bslz4_chunk(twelve, 2, stored);
  EXPECT_EQ(stored, bitshuffle_chunk(twelve, 2, 2));
}

TEST(Filters, L18_PlainLz4HasItsOwnFraming) {
  std::mt19937 rng(3);
  for (int k = 0; k < 4; ++k) {
    const Bytes truth = k == 2 ? elements(1024, 2, [&](std::size_t) { return rng(); })
                               : sparse_counts(1024, 2, static_cast<unsigned>(k));
    for (const std::size_t block : {2048u, 1000u, 1u << 20}) {
      Bytes out(truth.size());
      EXPECT_TRUE(decode(lz4_framed(truth, block), {{32004, {}}}, 2, out).ok());
      EXPECT_TRUE(out == truth);
      EXPECT_FALSE(decode(lz4_framed(truth, block), {bitshuffle_filter(2, 2)}, 2, out).ok() && out == truth);
    }
  }
}

TEST(Filters, C9_PipelinesUndoneLastToFirstAndMasked) {
  const Bytes truth = sparse_counts(5003, 4, 1);
  Bytes out(truth.size());
  const Filter shuffle{2, {4}}, deflate{1, {4}}, zstd_filter{32015, {3}}, lz4_filter{32004, {}},
      bits = bitshuffle_filter(4, 0);
  const auto check = [&](const Bytes& stored, const FilterPipeline& p, std::uint32_t mask, const char* what) {
    std::fill(out.begin(), out.end(), std::byte{0xee});
    const ChunkFault fault = decode(stored, p, 4, out, mask);
    EXPECT_TRUE(fault.ok()) << what << ": " << describe(fault);
    EXPECT_TRUE(out == truth) << what;
  };
  check(truth, {}, 0, "none");
  check(deflate_bytes(truth), {deflate}, 0, "deflate");
  check(zstd(truth), {zstd_filter}, 0, "zstd");
  check(deflate_bytes(shuffle_bytes(truth, 4)), {shuffle, deflate}, 0, "shuffle + deflate");
  check(deflate_bytes(truth), {shuffle, deflate}, 1, "shuffle masked");
  check(shuffle_bytes(truth, 4), {shuffle, deflate}, 2, "deflate masked");
  check(truth, {shuffle, deflate}, 3, "both masked");
  check(zstd(bitshuffle_chunk(truth, 4, 0)), {bits, zstd_filter}, 0, "bitshuffle, then zstd");
  check(lz4_framed(shuffle_bytes(truth, 4), 4096), {shuffle, lz4_filter}, 0, "shuffle + LZ4");
  check(deflate_bytes(bitshuffle_chunk(truth, 4, 2)), {bitshuffle_filter(4, 2), deflate}, 0,
        "compressor over compressor");
  check(bitshuffle_chunk(shuffle_bytes(truth, 4), 4, 3), {shuffle, bitshuffle_filter(4, 3)}, 0,
        "shuffle + bitshuffle-zstd");
  check(lz4_framed(zstd(deflate_bytes(truth)), 999), {deflate, zstd_filter, lz4_filter}, 0, "three compressors");
  Bytes two = zstd(std::span(truth).first(8000));
  append(two, zstd(std::span(truth).subspan(8000)));
  check(two, {zstd_filter}, 0, "two zstd frames");
}

TEST(Filters, L21_SizesAreClaims) {
  const Bytes truth = sparse_counts(4096, 2, 7);
  const FilterPipeline p{bitshuffle_filter(2, 2)};
  Bytes out(truth.size()), stored = bitshuffle_chunk(truth, 2, 2);
  Bytes huge = stored;
  huge[2] = std::byte{1};  // 2^40 bytes
  EXPECT_EQ(decode(huge, p, 2, out).verdict, ChunkVerdict::chunk_size);
  // As an inner filter, where the size is not known, the claim is bounded all the same.
  EXPECT_EQ(decode(deflate_bytes(huge), {p[0], {1, {}}}, 2, out).verdict, ChunkVerdict::chunk_size);
  EXPECT_EQ(decode(huge, {{1, {}}, p[0]}, 2, out).verdict, ChunkVerdict::chunk_size);
  // A bomb: 64 MiB of zeros in deflate, for a chunk of 8 KiB.
  EXPECT_EQ(decode(deflate_bytes(Bytes(std::size_t{1} << 26)), {{1, {}}}, 2, out).verdict, ChunkVerdict::deflate);
  EXPECT_EQ(decode(zstd(Bytes(std::size_t{1} << 26)), {{32015, {}}}, 2, out).verdict, ChunkVerdict::zstd);
  EXPECT_EQ(decode(zstd(Bytes(std::size_t{1} << 26)), {p[0], {32015, {}}}, 2, out).verdict, ChunkVerdict::zstd);
  EXPECT_EQ(decode(std::span(stored).first(stored.size() - 3), p, 2, out).verdict, ChunkVerdict::chunk_truncated);
  Filter odd = bitshuffle_filter(2, 0);
  odd.client[3] = 12;
  EXPECT_EQ(decode(truth, {odd}, 2, out).verdict, ChunkVerdict::chunk_block_size);
  EXPECT_EQ(decode(truth, {{32008, {0, 3, 4000000000u, 0, 2}}}, 2, out).verdict, ChunkVerdict::chunk_size);
  EXPECT_TRUE(decode(truth, {{2, {0xffffffffu}}}, 2, out).ok());  // an element longer than the chunk: as it is, at once
  EXPECT_EQ(decode(Bytes(truth.size() - 1), {}, 2, out).verdict, ChunkVerdict::chunk_truncated);
  EXPECT_EQ(decode(Bytes(truth.size() + 1), {}, 2, out).verdict, ChunkVerdict::chunk_trailing);
}

TEST(Filters, L15_L22_UnsupportedIsRefusedByNumberAndName) {
  EXPECT_TRUE(check_supported({{2, {2}},
                               {1, {4}},
                               {32004, {}},
                               {32015, {}},
                               bitshuffle_filter(2, 0),
                               bitshuffle_filter(2, 2),
                               bitshuffle_filter(2, 3)}));
  EXPECT_TRUE(check_supported({{32008, {0, 3, 2}}}));
  const auto zfp = check_supported({{32013, {}}});
  ASSERT_FALSE(zfp);
  EXPECT_EQ(zfp.error().code, Code::unsupported);
  EXPECT_NE(zfp.error().message.find("32013 (ZFP)"), std::string::npos) << zfp.error().message;
  const auto code = check_supported({bitshuffle_filter(2, 7)});
  ASSERT_FALSE(code);
  EXPECT_NE(code.error().message.find("compressor code 7"), std::string::npos);
  EXPECT_EQ(filter_name(40000), "filter 40000");
  EXPECT_EQ(filter_name(32008), "bitshuffle");
}

TEST(Planes, BothWaysByTheDefinition) {
  std::mt19937 rng(11);
  for (const std::size_t s : {1u, 2u, 3u, 4u, 8u}) {
    for (const std::size_t m : {8u, 120u, 128u, 136u, 904u, 2048u, 4096u}) {
      const Bytes truth = elements(m, s, [&](std::size_t) { return rng() ^ std::uint64_t{rng()} << 32; });
      Bytes planes(truth.size()), back(truth.size());
      planes_from_elements(truth, s, planes);
      EXPECT_TRUE(planes == planes_by_definition(truth, s)) << s << " " << m;
      elements_from_planes(planes, s, back);
      EXPECT_TRUE(back == truth) << s << " " << m;
      for (std::size_t n_planes = 0; n_planes <= 8 * s;
           n_planes += 5) {  // the planes above are ignored, whatever they hold
        const std::size_t live = (n_planes + 7) / 8;
        elements_from_planes(planes, s, back, n_planes);
        for (std::size_t i = 0; i < back.size(); ++i)
          ASSERT_EQ(back[i], i % s < live ? truth[i] : std::byte{0}) << s << " " << m;
      }
    }
  }
}

TEST(Planes, LiesWhereTheCallerSaysAndNowhereElse) {
  for (const std::size_t s : {1u, 2u, 4u}) {
    for (const unsigned code : {0u, 2u, 3u}) {
      const std::size_t n = 192 * 192 + 13;
      const Bytes truth = sparse_counts(n, s, 5);
      const Bytes stored = bitshuffle_chunk(truth, s, code);
      PlaneGeometry g;
      ASSERT_TRUE(plane_geometry(stored, bitshuffle_filter(s, code), s, truth.size(), g).ok());
      ASSERT_EQ(g.tail_elements, n % 8);
      constexpr std::size_t kFrames = 3, kFrame = 1;
      const std::size_t stride = static_cast<std::size_t>(g.bytes_of(0)) + 64;
      for (const bool want_planes : {false, true}) {
        Bytes area(stride * kFrames * static_cast<std::size_t>(g.n_blocks()), std::byte{0x5a}),
            tail(g.tail_elements * s);
        std::vector<std::uint8_t> n_planes(g.n_blocks());
        const PlaneTarget target{area.data() + kFrame * stride, kFrames * stride, tail.data(),
                                 want_planes ? n_planes.data() : nullptr};
        const ChunkFault fault = decode_planes(stored, g, target);
        ASSERT_TRUE(fault.ok()) << describe(fault);
        std::size_t first = 0;
        for (std::size_t c = 0; c < g.n_blocks(); ++c) {
          const std::size_t bytes = static_cast<std::size_t>(g.bytes_of(c));
          const Bytes planes = planes_by_definition(std::span(truth).subspan(first, bytes), s);
          const std::size_t written = want_planes ? n_planes[c] * bytes / (8 * s) : bytes;
          ASSERT_LE(written, bytes);
          for (std::size_t f = 0; f < kFrames; ++f) {
            for (std::size_t i = 0; i < stride; ++i) {
              const std::byte found = area[(c * kFrames + f) * stride + i];
              if (f == kFrame && i < written)
                ASSERT_EQ(found, planes[i]) << c << " " << i;
              else if (f == kFrame && i < bytes)
                ASSERT_EQ(planes[i], std::byte{0}) << c << " " << i;
              else
                ASSERT_EQ(found, std::byte{0x5a}) << c << " " << f << " " << i;
            }
          }
          first += bytes;
        }
        EXPECT_EQ(std::memcmp(tail.data(), truth.data() + first, tail.size()), 0);
      }
    }
  }
}

TEST(Planes, ZeroPlanesOfSparseCountsAreNotWritten) {
  std::mt19937 rng(2);
  std::poisson_distribution<unsigned> counts(0.6);
  const Bytes truth = elements(4096, 2, [&](std::size_t) { return counts(rng); });
  PlaneGeometry g;
  const Bytes stored = bitshuffle_chunk(truth, 2, 2);
  ASSERT_TRUE(plane_geometry(stored, bitshuffle_filter(2, 2), 2, truth.size(), g).ok());
  Bytes area(8192);
  std::uint8_t n_planes = 0;
  ASSERT_TRUE(decode_planes(stored, g, {area.data(), 8192, nullptr, &n_planes}).ok());
  EXPECT_LE(n_planes, 4);  // no count of 8 or more among 4096
  EXPECT_GE(n_planes, 2);
}

TEST(Planes, AnotherGeometryIsRefused) {
  const Bytes truth = sparse_counts(8192, 2, 7);
  PlaneGeometry g;
  ASSERT_TRUE(plane_geometry(bitshuffle_chunk(truth, 2, 2), bitshuffle_filter(2, 2), 2, truth.size(), g).ok());
  Bytes area(truth.size());
  EXPECT_EQ(decode_planes(bitshuffle_chunk(truth, 2, 2, 512), g, {area.data(), 8192, nullptr, nullptr}).verdict,
            ChunkVerdict::chunk_block_size);
}

}  // namespace
}  // namespace quantem
