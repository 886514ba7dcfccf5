// What a load says that was decoded on a device, without a device: the numbers that it would have counted are given here.

#include "quantem/io/fast_load_report.h"

#include <gtest/gtest.h>

#include "quantem/io/memory_source.h"

namespace quantem {
namespace {

// Two scan rows of four positions, the second acquired backwards, as Container::frame_of counts a serpentine scan.
class Serpentine : public MemorySource<std::uint16_t> {
 public:
  using MemorySource::MemorySource;
  [[nodiscard]] std::uint64_t frame_of(std::uint64_t n) const override { return n < 4 ? n : 11 - n; }
};

struct Case {
  explicit Case(std::vector<std::uint16_t> values)
      : source({{2, 4}, {2, 2}}, std::move(values)), cpu(*open_device(Backend::cpu)) {
    plan = *plan_load(cpu, source.container, {});
    SlabPlan slab;
    slab.n_frames = 8, slab.n_blocks = 1;
    slab.present.assign(kBlockPositions / 32, 0);
    slab.present[0] = 0xff;
    slabs = {slab};
  }
  AuditPart audit(const DeviceAudit& device) {
    const auto done = report_fast_load(plan, source, slabs, {device, {}, verdicts, kBlockPositions}, reports);
    EXPECT_TRUE(done && *done);
    return reports.at(0).audit;
  }
  Serpentine source;
  Device cpu;
  LoadPlan plan;
  std::vector<SlabPlan> slabs;
  std::vector<std::uint32_t> verdicts = std::vector<std::uint32_t>(kBlockPositions, Bslz4Decoder::kFine);
  std::vector<BlockReport> reports;
};

std::vector<std::uint16_t> frames_with_nine_at(std::initializer_list<std::pair<std::size_t, std::size_t>> places) {
  std::vector<std::uint16_t> v(32, 1);
  for (const auto& [frame, pixel] : places) v[frame * 4 + pixel] = 9;
  return v;
}

TEST(FastLoadReport, C10_EqualMaximaOfASerpentineScanNameTheFirstAcquired) {
  Case c(frames_with_nine_at({{5, 3}, {5, 2}, {7, 0}}));
  // The device sees position 4 (frame 7) first; frame 5, position 6, was acquired before it.
  const AuditPart audit = c.audit({.n_nonzero = 32, .count_min = 1, .count_max = 9, .max_pixel = 0, .max_position = 4});
  EXPECT_EQ(audit.max_position, 6u);
  EXPECT_EQ(audit.max_order, 5u);
  EXPECT_EQ(audit.max_pixel, 2u);
  EXPECT_EQ(audit.n_values, 32u);
  EXPECT_EQ(audit.min, 1);
  EXPECT_EQ(audit.max, 9);
}
TEST(FastLoadReport, MaximaInARowThatRunsForwardStay) {
  Case c(frames_with_nine_at({{1, 3}, {3, 0}, {4, 0}}));
  const AuditPart audit = c.audit({.n_nonzero = 32, .count_min = 1, .count_max = 9, .max_pixel = 3, .max_position = 1});
  EXPECT_EQ(audit.max_position, 1u);
  EXPECT_EQ(audit.max_order, 1u);
  EXPECT_EQ(audit.max_pixel, 3u);
}
TEST(FastLoadReport, ARefusedFrameIsReadAgainForItsReason) {
  Case c(frames_with_nine_at({{0, 0}}));
  c.plan.missing = Missing::mark;
  c.source.corrupt = {2};
  c.verdicts[2] = Bslz4Decoder::kRefused;
  const AuditPart audit = c.audit({.n_nonzero = 28, .count_min = 1, .count_max = 9});
  EXPECT_EQ(audit.n_values, 28u);
  EXPECT_EQ(c.reports[0].missing, std::vector<std::uint64_t>{2});
  EXPECT_EQ(c.reports[0].n_corrupt, 1u);
  c.plan.missing = Missing::error;
  std::vector<BlockReport> reports;
  const DeviceAudit device;
  const auto refused = report_fast_load(c.plan, c.source, c.slabs, {device, {}, c.verdicts, kBlockPositions}, reports);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::corrupt_data) << refused.error().message;
}
// The CPU reads what the device refused (LZ4 blocks of another size): then the CPU loads it all.
TEST(FastLoadReport, AFrameThatOnlyTheCpuReadsSendsTheLoadThere) {
  Case c(frames_with_nine_at({{0, 0}}));
  c.verdicts[2] = Bslz4Decoder::kRefused;
  const DeviceAudit device;
  const auto done = report_fast_load(c.plan, c.source, c.slabs, {device, {}, c.verdicts, kBlockPositions}, c.reports);
  ASSERT_TRUE(done);
  EXPECT_FALSE(*done);
}

}  // namespace
}  // namespace quantem
