// The magnitude of an image's Fourier transform on a CUDA device, in double: sums for the mean, the field with its mean removed, cuFFT's
// real transform, magnitudes with the zero frequency in the middle. Sums are split by the number of values alone, so two runs agree.
//   sum_usable    256 CTAs, one partial sum each
//   make_field    every CTA adds the 256 partial sums in the same order; 4 bytes read, 8 written a value
//   magnitudes    16 bytes read (half of the spectrum twice), 4 written a value

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "quantem/display/device_kernels.h"
#include "quantem/display/taper.h"
#include "quantem/runtime/cuda_load_area.h"
#include "quantem/runtime/current_device.cuh"
#include "quantem/runtime/device_fft.h"

namespace quantem::display_detail {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kThreads = 256;

struct Sum {
  double sum;
  u64 n;
};

struct FftWork {
  const float* values;
  float* magnitude;
  u32 rows, cols;
  bool log;
  const double *row_weight, *col_weight;  // null: 1
  Sum* partial;                           // kThreads of them
  Sum* total;
  double* field;      // (rows, cols)
  double2* spectrum;  // (rows, cols / 2 + 1)
};

__device__ __forceinline__ bool usable(float x) {
  return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

// The sum over the CTA, in every thread; the order is that of the threads' numbers.
__device__ Sum add_up(Sum own) {
  __shared__ Sum sums[kThreads];
  sums[threadIdx.x] = own;
  for (u32 step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      sums[threadIdx.x].sum += sums[threadIdx.x + step].sum;
      sums[threadIdx.x].n += sums[threadIdx.x + step].n;
    }
  }
  __syncthreads();
  return sums[0];
}

__global__ void __launch_bounds__(kThreads) sum_usable(const __grid_constant__ FftWork work) {
  const u64 n = u64{work.rows} * work.cols;
  Sum own{};
  for (u64 i = u64{blockIdx.x} * kThreads + threadIdx.x; i < n; i += u64{kThreads} * kThreads) {
    const float x = __ldg(work.values + i);
    if (usable(x)) own.sum += static_cast<double>(x), ++own.n;
  }
  const Sum sum = add_up(own);
  if (threadIdx.x == 0) work.partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) make_field(const __grid_constant__ FftWork work) {
  const Sum total = add_up(work.partial[threadIdx.x]);
  if (blockIdx.x == 0 && threadIdx.x == 0) *work.total = total;
  const double mean = total.sum / static_cast<double>(total.n);
  const u64 n = u64{work.rows} * work.cols;
  for (u64 i = u64{blockIdx.x} * kThreads + threadIdx.x; i < n; i += u64{gridDim.x} * kThreads) {
    const float x = __ldg(work.values + i);
    double f = usable(x) ? static_cast<double>(x) - mean : 0.0;
    if (work.row_weight) f *= work.row_weight[i / work.cols] * work.col_weight[i % work.cols];
    work.field[i] = f;
  }
}

// A thread takes one pixel of the result; columns beyond the half that is there are their partners', whose magnitude is the same.
__global__ void __launch_bounds__(kThreads) magnitudes(const __grid_constant__ FftWork work) {
  const u64 n = u64{work.rows} * work.cols;
  const double mean = work.total->sum / static_cast<double>(work.total->n);
  const u32 half = work.cols / 2 + 1;
  for (u64 i = u64{blockIdx.x} * kThreads + threadIdx.x; i < n; i += u64{gridDim.x} * kThreads) {
    u32 u = static_cast<u32>(i / work.cols) + (work.rows - work.rows / 2);
    u32 v = static_cast<u32>(i % work.cols) + (work.cols - work.cols / 2);
    if (u >= work.rows) u -= work.rows;
    if (v >= work.cols) v -= work.cols;
    double m = static_cast<double>(n) * fabs(mean);
    if (u != 0 || v != 0) {
      if (v >= half) u = u ? work.rows - u : 0, v = work.cols - v;
      const double2 f = work.spectrum[u64{u} * half + v];
      m = sqrt(f.x * f.x + f.y * f.y);  // at most 2^64 * 3.4e38: its square is far from overflow
    }
    work.magnitude[i] = static_cast<float>(work.log ? log1p(m) : m);
  }
}

// The weights of both sides in device memory, rows first.
Result<Done> send_weights(CudaContext& context, Taper taper, FftWork& work, double* to) {
  const std::vector<double> row = taper_weights(taper, work.rows), col = taper_weights(taper, work.cols);
  QUANTEM_TRY(send_up(context, to, row.data(), row.size() * sizeof(double)));
  QUANTEM_TRY(send_up(context, to + row.size(), col.data(), col.size() * sizeof(double)));
  work.row_weight = to, work.col_weight = to + row.size();
  return Done{};
}

}  // namespace

Result<std::shared_ptr<DeviceMemory>> fft_magnitude_cuda(const DeviceImage& image, const FftOptions& options) {
  QUANTEM_TRY_ASSIGN(context, CudaContext::of(image.device()));
  const auto lock = context->query_lock();
  const CurrentDevice current(context->device());
  const auto stream = reinterpret_cast<cudaStream_t>(context->query_stream());
  QUANTEM_TRY_ASSIGN(fft, DeviceFft::of(*context, DeviceFft::Kind::real_forward, image.extent()));
  const u64 n = image.extent().count();
  FftWork work{};
  work.values = image.data();
  work.rows = image.extent().rows, work.cols = image.extent().cols;
  work.log = options.log;
  const u64 spectrum_bytes = u64{work.rows} * (work.cols / 2 + 1) * sizeof(double2);
  const u64 weight_bytes = options.taper == Taper::none ? 0 : (u64{work.rows} + work.cols) * sizeof(double);
  const u64 n_bytes = AreaPieces::rounded(kThreads * sizeof(Sum)) + AreaPieces::rounded(sizeof(Sum)) +
                      AreaPieces::rounded(n * sizeof(double)) + AreaPieces::rounded(spectrum_bytes) +
                      AreaPieces::rounded(weight_bytes);
  QUANTEM_TRY_ASSIGN(area, context->work_area(n_bytes));
  AreaPieces pieces(area);
  double* weights = nullptr;
  pieces.take(work.partial, kThreads * sizeof(Sum));
  pieces.take(work.total, sizeof(Sum));
  pieces.take(work.field, n * sizeof(double));
  pieces.take(work.spectrum, spectrum_bytes);
  pieces.take(weights, weight_bytes);
  QUANTEM_TRY_ASSIGN(out, image_memory(*context, n * sizeof(float)));
  work.magnitude = out->as<float>();
  if (options.taper != Taper::none) QUANTEM_TRY(send_weights(*context, options.taper, work, weights));

  const auto n_ctas = static_cast<u32>(
      std::clamp<u64>((n + kThreads - 1) / kThreads, 1, u64{16} * static_cast<u64>(context->multiprocessors())));
  sum_usable<<<kThreads, kThreads, 0, stream>>>(work);
  make_field<<<n_ctas, kThreads, 0, stream>>>(work);
  QUANTEM_TRY(context->check(cudaGetLastError(), "fft_magnitude"));
  QUANTEM_TRY(fft.forward(work.field, reinterpret_cast<std::complex<double>*>(work.spectrum)));
  magnitudes<<<n_ctas, kThreads, 0, stream>>>(work);
  QUANTEM_TRY(context->check(cudaGetLastError(), "fft_magnitude"));
  QUANTEM_TRY_ASSIGN(pinned, context->pinned_result(sizeof(Sum)));
  QUANTEM_TRY(context->check(cudaMemcpyAsync(pinned, work.total, sizeof(Sum), cudaMemcpyDeviceToHost, stream),
                             "fft_magnitude"));
  QUANTEM_TRY(context->synchronize("fft_magnitude"));
  if (static_cast<const Sum*>(pinned)->n == 0)
    return Error{Code::missing_data, "fft_magnitude: no value of the " + to_string(image.extent()) + " image is valid"};
  return out;
}

}  // namespace quantem::display_detail
