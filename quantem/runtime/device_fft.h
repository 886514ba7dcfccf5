#pragma once
// Two-dimensional Fourier transforms of doubles on a CUDA device, any size, by cuFFT:
//   forward  F[u, v] = sum over (r, c) of f[r, c] exp(-2 pi i (u r / rows + v c / cols))          unnormalised
//   inverse  f[r, c] = sum over (u, v) of F[u, v] exp(+2 pi i (u r / rows + v c / cols))           unnormalised: divide by rows cols
//   complex       complex128 (rows, cols) <-> complex128 (rows, cols), in place allowed
//   real_forward  float64 (rows, cols) -> complex128 (rows, cols / 2 + 1), columns of the first half only
//   real_inverse  complex128 (rows, cols / 2 + 1) -> float64 (rows, cols); its input is overwritten
// All in device memory, C order, 16-byte aligned. Same shape, same values, same device: the same bits.
//
// cuFFT is looked for at run time, once: libcufft.so.12 where the loader finds it (LD_LIBRARY_PATH), then in the toolkit's folder
// /usr/local/cuda/lib64. Nothing else needs it, so a program without it starts, and of() says how to get it.
// Plans take milliseconds to make and are kept for the process, the latest 16 of a device, with their work areas.

#include <complex>

#include "quantem/core/result.h"
#include "quantem/core/shape.h"
#include "quantem/runtime/cuda_context.h"

namespace quantem {

class DeviceFft {
 public:
  enum class Kind : std::uint8_t { real_forward, real_inverse, complex };

  // The plan, made or found. Valid while the query lock, which is held, is not let go. Errors: unsupported where there is no cuFFT, with
  // the way to get it; invalid_argument for a side of 0 or above 2^31 - 1; out_of_memory for its work area; device.
  static Result<DeviceFft> of(CudaContext& context, Kind kind, Extent extent);

  // Queued on the query stream, one kind each.
  Result<Done> forward(const std::complex<double>* from, std::complex<double>* to) const;
  Result<Done> inverse(const std::complex<double>* from, std::complex<double>* to) const;
  Result<Done> forward(const double* from, std::complex<double>* to) const;
  Result<Done> inverse(std::complex<double>* from, double* to) const;

 private:
  DeviceFft(CudaContext& context, int plan) : context_(&context), plan_(plan) {}
  CudaContext* context_;
  int plan_;
};

// Done where cuFFT was found, or why it cannot be used and what to do.
Result<Done> find_cufft();

}  // namespace quantem
