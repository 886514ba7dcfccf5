#pragma once
// A Volume is a whole acquisition held in memory, every count exact, in one of several representations. It is
// immutable: any number of threads may query it at once. A Volume is a cheap handle; copies share the counts.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/bit_mask.h"
#include "quantem/core/calibration.h"
#include "quantem/core/dtype.h"
#include "quantem/core/provenance.h"
#include "quantem/core/shape.h"
#include "quantem/resident/derived.h"
#include "quantem/resident/sliced.h"
#include "quantem/runtime/device.h"

namespace quantem {

enum class Representation : std::uint8_t { dense, encoded };
enum class CodecProfile : std::uint8_t { none, bit_sliced_v1 };
std::string_view representation_name(Representation r);  // "dense", "encoded"
std::string_view codec_profile_name(CodecProfile p);     // "", "bit-sliced-v1"

// What to do with the value 0xFFFFFFFF of a u32 source: store 0 and leave the sample out of every denominator; count
// it; refuse.
enum class Flagged : std::uint8_t { zero, keep, error };

// A sample without a value: position is the flat scan position, pixel the flat detector pixel.
struct FlaggedSample {
  std::uint64_t position = 0;
  std::uint32_t pixel = 0;
  auto operator<=>(const FlaggedSample&) const = default;
};

// Taken over all valid values of every load. Integers are exact in the doubles (all below 2^53).
struct Audit {
  double count_min = 0, count_max = 0;
  std::uint64_t max_position = 0;  // flat; the first in acquisition order
  std::uint32_t max_pixel = 0;
  std::uint64_t n_values = 0, n_nonzero = 0, n_above_255 = 0, n_above_65535 = 0, n_saturated = 0, n_flagged = 0,
                n_nonfinite = 0;
  std::string digest;  // SHA-256 over source identity, dtype, bad pixels, count_max, n_above_255
};

// Frame-major counts in the working dtype; missing frames and bad pixels hold 0.
struct DenseStorage {
  Buffer counts;  // n_values * item_bytes
};

struct SlicedDevice;  // resident/sliced_device.h
struct DenseDevice;   // resident/dense_device.h

// Everything that is known of a volume besides its counts.
struct VolumeInfo {
  Shape4 shape;  // after crop and bin
  Dtype dtype = Dtype::u16, source_dtype = Dtype::u16;
  Audit audit;
  BitMask valid_pixels;                    // frame_pixels; a cleared bit is a bad pixel
  BitMask valid_positions;                 // n_positions; a cleared bit is a missing frame
  std::vector<FlaggedSample> flagged;      // ascending; empty unless the source is u32 or a bin has such a member
  std::vector<std::uint32_t> valid_count;  // of binned volumes: valid source pixels in each bin; else empty
  std::uint64_t n_nonfinite_samples = 0;   // f32 only
  double saturation =
      std::numeric_limits<double>::infinity();  // counts from here on are saturated; none in binned volumes
  Calibration calibration;
  std::string metadata_json = "{}";  // scalars of the source as found, and its side file
  Provenance provenance;             // of the load
};

class Volume {
 public:
  Volume(VolumeInfo info, Device device, DenseStorage dense);
  Volume(VolumeInfo info, Device device, SlicedStorage sliced);
  // Counts on a GPU.
  Volume(VolumeInfo info, Device device, std::shared_ptr<const SlicedDevice> sliced);
  Volume(VolumeInfo info, Device device, std::shared_ptr<const DenseDevice> dense);

  [[nodiscard]] const VolumeInfo& info() const { return state_->info; }
  [[nodiscard]] const Shape4& shape() const { return info().shape; }
  [[nodiscard]] Dtype dtype() const { return info().dtype; }
  [[nodiscard]] const Audit& audit() const { return info().audit; }
  [[nodiscard]] const BitMask& valid_pixels() const { return info().valid_pixels; }
  [[nodiscard]] const BitMask& valid_positions() const { return info().valid_positions; }
  [[nodiscard]] const Calibration& calibration() const { return calibration_ ? *calibration_ : info().calibration; }
  [[nodiscard]] const Provenance& provenance() const { return info().provenance; }
  [[nodiscard]] const Device& device() const { return state_->device; }
  [[nodiscard]] Representation representation() const;
  [[nodiscard]] CodecProfile profile() const;
  [[nodiscard]] std::uint64_t logical_bytes() const { return shape().n_values() * item_bytes(dtype()); }
  [[nodiscard]] std::uint64_t resident_bytes() const;
  // Sides of the detector tiles whose sums are kept: {8, 32}, with tiles_4 {4, 8, 32}; of dense volumes none.
  [[nodiscard]] std::vector<std::uint32_t> tile_levels() const;

  // The storage, or null when the volume is of another kind. Only for operations; not a public way to the counts.
  [[nodiscard]] const DenseStorage* dense() const { return std::get_if<DenseStorage>(&state_->counts); }
  [[nodiscard]] const SlicedStorage* sliced() const { return std::get_if<SlicedStorage>(&state_->counts); }
  [[nodiscard]] const SlicedDevice* sliced_device() const { return on_device<SlicedDevice>(); }
  [[nodiscard]] const DenseDevice* dense_device() const { return on_device<DenseDevice>(); }

  // What operations keep with the counts; see Derived.
  [[nodiscard]] Derived& derived() const { return *state_->derived; }

  // A copy that shares the counts and carries other calibration (calibration(); info() keeps what was loaded).
  [[nodiscard]] Volume with_calibration(const Calibration& calibration) const;
  // JSON, schema quantem.gpu.4dstem-resident-receipt/v3.
  [[nodiscard]] std::string receipt_json() const;

  // Lets go of the counts, which are freed with the last handle. Afterwards check_open() is `closed` and so is every
  // operation on this handle; the accessors must not be called. Idempotent. Other handles of the same counts stay open.
  void close() { state_.reset(); }
  [[nodiscard]] Result<Done> check_open() const;

 private:
  using Counts = std::variant<DenseStorage, SlicedStorage, std::shared_ptr<const SlicedDevice>,
                              std::shared_ptr<const DenseDevice>>;
  struct State {
    VolumeInfo info;
    Device device;
    Counts counts;
    std::shared_ptr<Derived> derived = std::make_shared<Derived>();
  };
  Volume(VolumeInfo info, Device device, Counts counts);
  template <class T>
  [[nodiscard]] const T* on_device() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&state_->counts);
    return held ? held->get() : nullptr;
  }
  std::shared_ptr<const State> state_;              // null: closed
  std::shared_ptr<const Calibration> calibration_;  // null: that of the load
};

// The counts of scan x det, (scan_rows, scan_cols, det_rows, det_cols), in the working dtype, exactly as the source
// holds them; bad pixels and flagged samples are 0. missing_data when the region has a missing position and `fill` is
// empty.
struct ReadOptions {
  std::optional<double> fill;
  std::uint64_t limit_bytes = std::uint64_t{2'000'000'000};  // a larger result is out_of_memory, with its size
};
Result<HostArray> read(const Volume& volume, const Region& scan, const Region& det, const ReadOptions& options = {});

// A volume from counts in memory: shape 4-D, or 3-D with `scan`, or 2-D (one position).
struct FromArrayOptions {
  std::optional<Extent> scan_shape;
  std::optional<Representation> representation;  // unset: encoded for u8 u16 u32, dense for the others
  bool tiles_4 = false;                          // also sums over 4x4 detector tiles; see LoadOptions
  BitMask valid_pixels, valid_positions;         // empty: all
  Flagged flagged = Flagged::zero;
  Calibration calibration;
};
Result<Volume> from_array(const Device& device, const ArrayView& counts, const FromArrayOptions& options = {});

// For those who make volumes. The step of provenance that says how counts are kept; and the refusal of tiles_4 where none are kept so.
ProcessingStep storage_step(bool tiles_4);
Result<Done> check_tiles_4(std::string_view operation, bool tiles_4, bool encoded);

}  // namespace quantem
