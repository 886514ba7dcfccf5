#pragma once
// For tests: frames in memory as a source of load, with missing and damaged ones, and the container that describes them.

#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "quantem/io/load_run.h"

namespace quantem {

template <class T>
class MemorySource : public FrameSource {
 public:
  MemorySource(const Shape4& shape, std::vector<T> values) : values_(std::move(values)) {
    container.shape = shape;
    container.dtype = dtype_of<T>();
    container.format = "npy";
    container.identity = {{"memory.npy", shape.n_values() * sizeof(T), 1, ""}};
    Part part;
    part.dtype = container.dtype;
    part.n_frames = shape.n_positions();
    part.chunks = {{0, shape.n_values() * sizeof(T), 0}};
    container.parts = {part};
    container.n_stored = container.n_expected = shape.n_positions();
  }

  [[nodiscard]] std::uint64_t frame_of(std::uint64_t source_position) const override { return source_position; }
  std::optional<FrameFault> read_frame(std::uint64_t frame, std::span<std::byte> out,
                                       FrameReader::Scratch&) const override {
    if (missing.contains(frame)) return FrameFault{true, "x_data_000003.h5 not found"};
    if (corrupt.contains(frame))
      return FrameFault{false, "x_data_000002.h5: /entry/data/data frame " + std::to_string(frame) + ": lz4_offset"};
    if (generate) {
      generate(frame, {reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)});
      return std::nullopt;
    }
    std::memcpy(out.data(), values_.data() + frame * container.shape.frame_pixels(), out.size());
    return std::nullopt;
  }

  Result<Volume> load(const LoadOptions& options = {}, const DeviceOptions& device_options = {},
                      const Job& job = {}) const {
    QUANTEM_TRY_ASSIGN(device, open_device(Backend::cpu, 0, device_options));
    QUANTEM_TRY_ASSIGN(plan, plan_load(device, container, options));
    QUANTEM_TRY(check_memory(device, container, plan));
    return run_load(
        device, plan, facts_of(container), *this, nullptr, [] { return Result<Done>(Done{}); }, job);
  }

  [[nodiscard]] const std::vector<T>& values() const { return values_; }

  Container container;
  std::set<std::uint64_t> missing, corrupt;
  std::function<void(std::uint64_t frame, std::span<T> out)> generate;  // instead of values

 private:
  std::vector<T> values_;
};

}  // namespace quantem
