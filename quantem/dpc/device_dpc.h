#pragma once
// run_dpc (dpc.h) of encoded counts on a CUDA device, whose phase stays there: the sums, centre of mass, descan, rotation and integration
// run on the device without a way through the host. Within the bounds of rotation.h and idpc.h of the host's result; the centre of mass
// before descan is the host's bit for bit; same input, same device: the same bits.
//   phase  f32  (scan_rows, scan_cols)  as DpcResult::phase
// What it does not do is `unsupported`, by name: descan plane, parabola and map, the rotation methods grid and grid_abs, and everything
// where cuFFT is missing. run_dpc() takes the same way for volumes that are encoded on a CUDA device; what this does not do, and dense counts
// there, it integrates on the host, from the device's sums, and its provenance warns "dpc: on the host". Errors: those of run_dpc.

#include "quantem/dpc/dpc.h"
#include "quantem/resident/device_image.h"

namespace quantem {

struct DeviceDpc {
  DeviceImage phase;
  Rotation rotation;
  bool rotation_given = false;
  std::uint64_t filled = 0;  // positions that entered the phase as no deflection
};

// Waits for the angle, which provenance names.
Result<DeviceDpc> run_dpc_on_device(const Volume& volume, const DpcOptions& options = {}, const Job& job = {});

// Makes now, on any thread, what run_dpc would make first: cuFFT is found and its plans for the scan are made, which takes longer than
// everything after it. Where that fails nothing happens: run_dpc says what is wrong. Nothing on other backends.
void prepare_dpc(const Device& device, Extent scan, const DpcOptions& options = {});

namespace dpc_detail {

std::string why_on_host(const DpcOptions& options);  // empty: the device does it
Result<DpcResult> run_dpc_cuda(const Volume& volume, const DpcOptions& options, const Job& job);

}  // namespace dpc_detail
}  // namespace quantem
