#pragma once
// What the kernels of the device encoder share: the streams of a slab before they have a place, and how each stage is started. The stages
// and their order are in sliced_device_encode.h; a stage is one file:
//   sliced_rows_cuda.cu        values -> rows, flagged samples, rows -> slices
//   sliced_tiles_cuda.cu       sums and first moments of tiles
//   sliced_directory_cuda.cu   widths, directory, place, means for the planner
//   sliced_audit_cuda.cu       range and notable values
// Times in these files are of 262,144 frames of 192 x 192 u16 in slabs of 8 blocks on one H200, measured with the prototype of the kernels.
// Starting is all that the functions do: the caller asks cudaGetLastError().

#include <cuda_runtime_api.h>

#include "quantem/resident/device_bits.cuh"
#include "quantem/resident/sliced_device_encode.h"

namespace quantem::sliced_encode {

using bits::u16;
using bits::u32;
using bits::u64;
using bits::u8;

inline constexpr u32 kWords = kBlockPositions / 32;  // of a plane

// Streams of a slab before they have a place: every plane apart, empty ones not written.
//   planes[((block * n_streams + stream) * n_planes + p) * 16 + word], written where bit p of used is set
//   set_bits[(block * n_streams + stream) * n_planes + p], likewise
struct Slices {
  u32* planes;
  u16* set_bits;
  u64* used;  // [block * n_streams + stream]
  u32 n_streams, n_planes;
};

struct Totals {  // of the audit, in device memory, for the whole load
  u64 n_nonzero, n_above_255, n_above_65535, n_saturated;
  u32 count_min, padding;
  u64 n_flagged;
};

struct Geometry {
  u32 det_rows, det_cols, n_pixels, tiles8_cols, tiles32_cols, n_tiles8, n_tiles32;
  u32 tiles4_rows, tiles4_cols;  // 0: none
};

// sliced_rows_cuda.cu. `values`: (n_frames, n_pixels) of item_bits; `valid`: a bit a pixel, padded with zeros to a row.
void start_rows_from_values(const PlaneRows& rows, const void* values, u32 item_bits, const u32* valid, u32 n_pixels,
                            u32 n_frames, cudaStream_t stream);
// Appends to `list` (of `capacity`; totals->n_flagged says how many there were).
void start_clear_flagged(const PlaneRows& rows, u64 first_position, u32 n_frames, FlaggedSample* list, u64 capacity,
                         Totals* totals, cudaStream_t stream);
void start_transpose(const PlaneRows& rows, const Slices& pixels, const u32* stream_of_pixel, u32 n_pixels,
                     u32 n_blocks, cudaStream_t stream);

// sliced_tiles_cuda.cu
void start_tiles(const Slices& pixels, const Slices& tiles, const Geometry& geometry, u32 n_blocks,
                 cudaStream_t stream);

// sliced_directory_cuda.cu. cut: [block][stream] width | listed << 6; groups: [block][32 streams] {planes, listed bits}, of the group, then
// in front of it; totals: [block] the same of the block.
struct Directory {
  u32* entry;
  u16* list_end;
  u32* list_start;
};
u64 group_bytes(u32 n_streams);  // of one block
void start_widths(const Slices& pixels, const Slices& tiles, u16* cut, uint2* groups, u32 n_blocks,
                  cudaStream_t stream);
void start_scan(const SlicedDeviceView& view, const Directory& directory, uint2* groups, uint2* totals, u64 first_block,
                u32 n_blocks, cudaStream_t stream);
void start_place(const Slices& pixels, const Slices& tiles, const SlicedDeviceView& view, const Directory& directory,
                 const u16* cut, const uint2* groups, u64 first_block, u32 n_blocks, cudaStream_t stream);
void start_mean_costs(const SlicedDeviceView& view, float* planes, float* listed, cudaStream_t stream);

// sliced_audit_cuda.cu
void start_audit(const Slices& pixels, const PlaneRows& rows, const u32* pixel_of_stream, const u32* valid,
                 u32 item_bits, u64 saturation, Totals* totals, u64* max_key, u32 n_blocks, cudaStream_t stream);

}  // namespace quantem::sliced_encode
