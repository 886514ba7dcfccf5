#include "quantem/io/load.h"

#include "quantem/io/load_fast.h"
#include "quantem/io/load_run.h"

namespace quantem {
namespace {

class ContainerFrames : public FrameSource {
 public:
  ContainerFrames(const Container& container, const FrameReader& reader) : container_(container), reader_(reader) {}
  [[nodiscard]] std::uint64_t frame_of(std::uint64_t source_position) const override {
    return container_.frame_of(source_position);
  }
  std::optional<FrameFault> read_frame(std::uint64_t frame, std::span<std::byte> out,
                                       FrameReader::Scratch& scratch) const override {
    return reader_.read_frame(frame, out, scratch);
  }

 private:
  const Container& container_;
  const FrameReader& reader_;
};

}  // namespace

Result<Volume> load(const Device& device, const Container& container, const LoadOptions& options, const Job& job) {
  QUANTEM_TRY_ASSIGN(plan, plan_load(device, container, options));
  QUANTEM_TRY(check_memory(device, container, plan));
  QUANTEM_TRY(check_unchanged(container));
  QUANTEM_TRY_ASSIGN(reader, FrameReader::open(container));
  const ContainerFrames frames(container, reader);
  std::unique_ptr<BlockEncoder> fast;
  if (device.backend() == Backend::cpu && plan.representation == Representation::encoded && plan.plain())
    fast = fast_block_encoder(plan, container, reader);
  return run_load(
      device, plan, facts_of(container), frames, fast.get(), [&] { return check_unchanged(container); }, job,
      &container, &reader);
}

}  // namespace quantem
