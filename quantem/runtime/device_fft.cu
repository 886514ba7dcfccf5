// cuFFT through dlopen. Its types are declared here (the interface of libcufft.so.12), so no cuFFT header is needed to build.

#include "quantem/runtime/device_fft.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <list>
#include <map>

#include "quantem/runtime/cuda_load_area.h"
#include "quantem/runtime/current_device.cuh"

namespace quantem {
namespace {

constexpr const char* kLibraries[] = {"libcufft.so.12", "/usr/local/cuda/lib64/libcufft.so.12"};
constexpr std::size_t kPlansKept = 16;

// cufftType, cufftResult, directions.
constexpr int kD2Z = 0x6a, kZ2D = 0x6c, kZ2Z = 0x69, kSuccess = 0, kAllocFailed = 2, kForward = -1, kInverse = 1;

struct Cufft {
  int (*plan_2d)(int* plan, int rows, int cols, int type) = nullptr;
  int (*set_stream)(int plan, cudaStream_t stream) = nullptr;
  int (*destroy)(int plan) = nullptr;
  int (*exec_d2z)(int plan, double* from, void* to) = nullptr;
  int (*exec_z2d)(int plan, void* from, double* to) = nullptr;
  int (*exec_z2z)(int plan, void* from, void* to, int direction) = nullptr;
  std::string missing;  // why there is none; empty when all functions are there
};

Cufft load_cufft() {
  Cufft lib;
  void* handle = nullptr;
  for (const char* name : kLibraries) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // never closed: plans live as long as the process
    if (handle) break;
    const char* reason = dlerror();
    lib.missing += std::string(lib.missing.empty() ? "" : "; ") + (reason ? reason : name);
  }
  if (!handle) {
    lib.missing = "cuFFT 12 was not found (" + lib.missing +
                  "); install the CUDA 13 toolkit, or `pip install nvidia-cufft` and put the folder of its "
                  "libcufft.so.12 (site-packages/nvidia/cu13/lib) into LD_LIBRARY_PATH";
    return lib;
  }
  lib.missing.clear();
  const auto find = [&](auto*& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (!function && lib.missing.empty()) lib.missing = std::string("cuFFT: libcufft.so.12 has no ") + name;
  };
  find(lib.plan_2d, "cufftPlan2d");
  find(lib.set_stream, "cufftSetStream");
  find(lib.destroy, "cufftDestroy");
  find(lib.exec_d2z, "cufftExecD2Z");
  find(lib.exec_z2d, "cufftExecZ2D");
  find(lib.exec_z2z, "cufftExecZ2Z");
  return lib;
}

const Cufft& cufft() {
  static const Cufft& lib = *new Cufft(load_cufft());
  return lib;
}

const char* status_text(int status) {
  switch (status) {
    case 1:
      return "invalid plan";
    case kAllocFailed:
      return "out of device memory for its work area";
    case 4:
      return "invalid value";
    case 5:
      return "internal error";
    case 6:
      return "execution failed";
    case 7:
      return "setup failed (does the driver support this cuFFT?)";
    case 8:
      return "size not supported";
    case 0xD:
      return "no work area";
    default:
      return "error";
  }
}

// A fault of the device that is behind the failure is kept as every other.
Error failed(CudaContext& context, int status, const char* what) {
  auto fault = context.check(cudaGetLastError(), what);
  if (!fault) return fault.take_error();
  return Error{
      status == kAllocFailed ? Code::out_of_memory : Code::device,
      std::string("cuFFT: ") + what + ": " + status_text(status) + " (cufftResult " + std::to_string(status) + ")"};
}

// Plans of one device, the latest used first. Never destroyed: at the end of the process the driver may be gone before statics are.
struct KeptPlan {
  DeviceFft::Kind kind;
  Extent extent;
  int plan;
};
struct Kept {
  std::mutex mutex;
  std::map<const CudaContext*, std::list<KeptPlan>> plans;
};
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

Result<int> make_plan(CudaContext& context, DeviceFft::Kind kind, Extent extent) {
  const int type = kind == DeviceFft::Kind::complex ? kZ2Z : kind == DeviceFft::Kind::real_forward ? kD2Z : kZ2D;
  const int rows = static_cast<int>(extent.rows), cols = static_cast<int>(extent.cols);
  int plan = 0, status = cufft().plan_2d(&plan, rows, cols, type);
  if (status == kAllocFailed) {  // what loads keep may make room
    cudaGetLastError();
    release_load_area(context.device());
    status = cufft().plan_2d(&plan, rows, cols, type);
  }
  if (status == kSuccess) {
    status = cufft().set_stream(plan, reinterpret_cast<cudaStream_t>(context.query_stream()));
    if (status != kSuccess) cufft().destroy(plan);
  }
  if (status != kSuccess) return failed(context, status, ("plan of " + to_string(extent)).c_str());
  return plan;
}

}  // namespace

Result<Done> find_cufft() {
  if (!cufft().missing.empty()) return Error{Code::unsupported, cufft().missing};
  return Done{};
}

Result<DeviceFft> DeviceFft::of(CudaContext& context, Kind kind, Extent extent) {
  QUANTEM_TRY(find_cufft());
  constexpr std::uint32_t kMost = 0x7fffffff;
  if (extent.rows == 0 || extent.cols == 0 || extent.rows > kMost || extent.cols > kMost)
    return Error{Code::invalid_argument,
                 "transform on the device: " + to_string(extent) + " has a side of 0 or above 2^31 - 1"};
  const CurrentDevice current(context.device());
  const std::lock_guard lock(kept().mutex);
  std::list<KeptPlan>& plans = kept().plans[&context];
  for (auto p = plans.begin(); p != plans.end(); ++p)
    if (p->kind == kind && p->extent == extent) {
      plans.splice(plans.begin(), plans, p);
      return DeviceFft(context, p->plan);
    }
  if (plans.size() == kPlansKept) {
    QUANTEM_TRY(context.synchronize("plan of a transform"));  // queued transforms may use its work area
    cufft().destroy(plans.back().plan);
    plans.pop_back();
  }
  QUANTEM_TRY_ASSIGN(plan, make_plan(context, kind, extent));
  plans.push_front({kind, extent, plan});
  return DeviceFft(context, plan);
}

Result<Done> DeviceFft::forward(const std::complex<double>* from, std::complex<double>* to) const {
  const CurrentDevice current(context_->device());
  const int status = cufft().exec_z2z(plan_, const_cast<std::complex<double>*>(from), to, kForward);
  if (status != kSuccess) return failed(*context_, status, "transform");
  return Done{};
}

Result<Done> DeviceFft::inverse(const std::complex<double>* from, std::complex<double>* to) const {
  const CurrentDevice current(context_->device());
  const int status = cufft().exec_z2z(plan_, const_cast<std::complex<double>*>(from), to, kInverse);
  if (status != kSuccess) return failed(*context_, status, "transform");
  return Done{};
}

// Out of place, a forward transform of real values keeps its input.
Result<Done> DeviceFft::forward(const double* from, std::complex<double>* to) const {
  const CurrentDevice current(context_->device());
  const int status = cufft().exec_d2z(plan_, const_cast<double*>(from), to);
  if (status != kSuccess) return failed(*context_, status, "transform");
  return Done{};
}

Result<Done> DeviceFft::inverse(std::complex<double>* from, double* to) const {
  const CurrentDevice current(context_->device());
  const int status = cufft().exec_z2d(plan_, from, to);
  if (status != kSuccess) return failed(*context_, status, "transform");
  return Done{};
}

}  // namespace quantem
