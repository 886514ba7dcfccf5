#pragma once
// Kernels of the chain from sums to the angle, and to the field that is transformed.
//   com_and_curl   a CTA of 256 takes 16 x 32 positions and the ring around them, whose centres of mass it keeps in shared memory
//   fourier_power  a thread takes bins of the spectrum; reads 32 bytes a bin
//   pack_field     a thread takes elements of the cell; reads 16 bytes and writes 16 an element

#include "quantem/core/fft.h"
#include "quantem/dpc/chain_cuda.h"
#include "quantem/dpc/grid_sums.cuh"

namespace quantem::dpc_detail {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct alignas(16) Bin {
  double re, im;
};

// Device memory of a chain.
struct ChainMemory {
  double *row, *col;  // centres of mass, px; NaN where there is no value
  Bin *z, *half;      // the packed field and its spectrum; half a spectrum of the phase
  double* solved;     // the phase on its cell, in the memory of z
  double* partials;
  u32* counter;
  ChainRecord* record;
};

inline constexpr u32 kTileRows = 16, kTileCols = 32;

__device__ inline u64 first_element() {
  return u64{blockIdx.x} * kThreads + threadIdx.x;
}
__device__ inline u64 count_of(Extent e) {
  return u64{e.rows} * e.cols;
}
__device__ inline u64 element_stride() {
  return u64{gridDim.x} * kThreads;
}

// From moments to the angle, cos and sin; by the one thread that has the sums.
__device__ inline void set_angle(const RotationMoments& plain, const RotationMoments& swapped, ChainRecord& record) {
  record.determined = plain.a + plain.d > 0;
  const FoundAngle found = record.determined ? smaller_of(plain, swapped) : FoundAngle{};
  const CosSin t = cos_sin_of(found.degrees);
  record.degrees = found.degrees;
  record.curl_fraction = found.curl_fraction;
  record.transpose = found.transpose;
  record.cos = t.cos;
  record.sin = t.sin;
}

// x: sums of row, col and 1 over positions with a value, A D X of the field, A D X of the exchanged one, the number of stencils.
__device__ inline void finish_com(const double (&x)[10], const ChainPlan& plan, ChainRecord& record) {
  record.n_valid = x[2];
  record.mean_row = x[2] > 0 ? x[0] / x[2] : 0;
  record.mean_col = x[2] > 0 ? x[1] / x[2] : 0;
  record.flip = plan.turned ? -1 : 1;
  if (plan.search == ChainPlan::Search::given) {
    record.cos = plan.given.cos;
    record.sin = plan.given.sin;
    record.transpose = plan.given_transpose;
  } else if (plan.search == ChainPlan::Search::curl) {
    const double scale = x[9] > 0 ? 1 / x[9] : 0;
    RotationMoments plain, swapped;
    plain.a = x[3] * scale, plain.d = x[4] * scale, plain.x = x[5] * scale;
    swapped.a = x[6] * scale, swapped.d = x[7] * scale, swapped.x = x[8] * scale;
    set_angle(plain, swapped, record);
  }
}

// The stencil around an element of the tile; nothing where one of the four has no value (NaN in row and col alike).
__device__ inline void add_stencil(const double (*row)[kTileCols + 2], const double (*col)[kTileCols + 2], u32 y, u32 x,
                                   const ChainPlan& plan, double (&sums)[10]) {
  const double per_row = 2 * plan.search_step.row, per_col = 2 * plan.search_step.col;
  const double row_dr = (row[y + 1][x] - row[y - 1][x]) * plan.search_factor.row / per_row;
  const double row_dc = (row[y][x + 1] - row[y][x - 1]) * plan.search_factor.row / per_col;
  if (isnan(row_dr) || isnan(row_dc)) return;
  const double col_dr = (col[y + 1][x] - col[y - 1][x]) * plan.search_factor.col / per_row;
  const double col_dc = (col[y][x + 1] - col[y][x - 1]) * plan.search_factor.col / per_col;
  const double div = row_dr + col_dc, curl_z = col_dr - row_dc;
  const double div_swapped = col_dr + row_dc, curl_swapped = row_dr - col_dc;
  sums[3] += curl_z * curl_z;
  sums[4] += div * div;
  sums[5] += curl_z * div;
  sums[6] += curl_swapped * curl_swapped;
  sums[7] += div_swapped * div_swapped;
  sums[8] += curl_swapped * div_swapped;
  sums[9] += 1;
}

// sums: total, row moment, col moment, one image behind the other.
template <class Integer>
__global__ void __launch_bounds__(kThreads)
    com_and_curl(const Integer* __restrict__ sums, const __grid_constant__ ChainPlan plan, ChainMemory memory) {
  __shared__ double tile_row[kTileRows + 2][kTileCols + 2], tile_col[kTileRows + 2][kTileCols + 2];
  const u32 rows = plan.scan.rows, cols = plan.scan.cols, across = (cols + kTileCols - 1) / kTileCols;
  const u32 r0 = blockIdx.x / across * kTileRows, c0 = blockIdx.x % across * kTileCols;
  const u64 n = u64{rows} * cols;
  for (u32 t = threadIdx.x; t < (kTileRows + 2) * (kTileCols + 2); t += kThreads) {
    const u32 y = t / (kTileCols + 2), x = t % (kTileCols + 2), r = r0 + y - 1,
              c = c0 + x - 1;  // -1 wraps to beyond the scan
    double row = __longlong_as_double(0x7ff8000000000000ll), col = row;
    if (r < rows && c < cols) {
      const u64 i = u64{r} * cols + c;
      if (const Integer total = sums[i]) {
        row = static_cast<double>(sums[n + i]) / static_cast<double>(total);
        col = static_cast<double>(sums[2 * n + i]) / static_cast<double>(total);
      }
    }
    tile_row[y][x] = row;
    tile_col[y][x] = col;
  }
  __syncthreads();
  double x10[10] = {};
  for (u32 t = threadIdx.x; t < kTileRows * kTileCols; t += kThreads) {
    const u32 y = t / kTileCols + 1, x = t % kTileCols + 1, r = r0 + y - 1, c = c0 + x - 1;
    if (r >= rows || c >= cols) continue;
    const double row = tile_row[y][x], col = tile_col[y][x];
    memory.row[u64{r} * cols + c] = row;
    memory.col[u64{r} * cols + c] = col;
    if (!isnan(row)) x10[0] += row, x10[1] += col, x10[2] += 1;
    if (plan.search == ChainPlan::Search::curl && r > 0 && r + 1 < rows && c > 0 && c + 1 < cols)
      add_stencil(tile_row, tile_col, y, x, plan, x10);
  }
  if (add_grid(x10, memory.partials, memory.counter)) finish_com(x10, plan, *memory.record);
}

// What a step reads of the field.
struct StepField {
  ChainPlan::Subtract subtract;
  Point point;
  Pair factor;
  bool aligned;
};

// (0, 0) where there is no value.
__device__ inline Bin working(double row, double col, const StepField& f, const ChainRecord& record) {
  if (isnan(row)) return {0, 0};
  const bool mean = f.subtract == ChainPlan::Subtract::mean;
  double r = row - (mean ? record.mean_row : f.point.row), c = col - (mean ? record.mean_col : f.point.col);
  r *= f.factor.row, c *= f.factor.col;
  if (!f.aligned) return {r, c};
  const double a = record.transpose ? c : r, b = record.transpose ? r : c;
  return {record.cos * a - record.sin * b, record.sin * a + record.cos * b};
}

// Reordering for the mirror boundary: element y of n holds position unfolded(y); position r is in element folded(r).
__device__ inline u32 unfolded(u32 y, u32 n) {
  return y < n - n / 2 ? 2 * y : 2 * (n - 1 - y) + 1;
}
__device__ inline u32 folded(u32 r, u32 n) {
  return r % 2 == 0 ? r / 2 : n - (r + 1) / 2;
}

// Row and col components as real and imaginary parts on the cell. The component along a fold changes sign at odd positions, which turns its
// sine series into a cosine series.
__global__ void __launch_bounds__(kThreads)
    pack_field(const ChainMemory memory, Extent scan, Extent cell, Boundary boundary, const StepField field) {
  const ChainRecord& record = *memory.record;
  for (u64 i = first_element(); i < count_of(cell); i += element_stride()) {
    const u32 y = static_cast<u32>(i / cell.cols), x = static_cast<u32>(i % cell.cols);
    Bin value{0, 0};
    if (boundary == Boundary::mirror) {
      const u32 r = unfolded(y, scan.rows), c = unfolded(x, scan.cols);
      const u64 from = u64{r} * scan.cols + c;
      value = working(memory.row[from], memory.col[from], field, record);
      if (r % 2) value.re = -value.re;
      if (c % 2) value.im = -value.im;
    } else if (y < scan.rows && x < scan.cols) {
      const u64 from = u64{y} * scan.cols + x;
      value = working(memory.row[from], memory.col[from], field, record);
    }
    memory.z[i] = value;
  }
}

// Spectra of both components from the spectrum of row + i col: parts of either symmetry under q -> -q.
struct TwoSpectra {
  Bin row, col;
};
__device__ inline TwoSpectra separated(Bin z, Bin mirrored) {
  return {{0.5 * (z.re + mirrored.re), 0.5 * (z.im - mirrored.im)},
          {0.5 * (z.im + mirrored.im), 0.5 * (mirrored.re - z.re)}};
}

__global__ void __launch_bounds__(kThreads) fourier_power(const __grid_constant__ ChainPlan plan, ChainMemory memory) {
  const u32 rows = plan.scan.rows, cols = plan.scan.cols;
  RotationMoments plain, swapped;
  for (u64 i = first_element(); i < u64{rows} * cols; i += element_stride()) {
    const u32 r = static_cast<u32>(i / cols), c = static_cast<u32>(i % cols);
    if (i == 0 || is_nyquist(r, rows) || is_nyquist(c, cols)) continue;
    const double qr = fft_frequency(r, rows, plan.search_step.row), qc = fft_frequency(c, cols, plan.search_step.col);
    const double q = hypot(qr, qc), transfer = disc_transfer_of(q / plan.disc_diameter);
    if (transfer == 0) continue;
    const double w = transfer * transfer, ur = qr / q, uc = qc / q;
    const TwoSpectra g = separated(memory.z[i], memory.z[u64{r ? rows - r : 0} * cols + (c ? cols - c : 0)]);
    const Bin a = g.row, b = g.col;
    add_power(plain, ur * a.re + uc * b.re, ur * a.im + uc * b.im, ur * b.re - uc * a.re, ur * b.im - uc * a.im, w);
    add_power(swapped, ur * b.re + uc * a.re, ur * b.im + uc * a.im, ur * a.re - uc * b.re, ur * a.im - uc * b.im, w);
  }
  double x[6] = {plain.a, plain.d, plain.x, swapped.a, swapped.d, swapped.x};
  if (!add_grid(x, memory.partials, memory.counter)) return;
  plain.a = x[0], plain.d = x[1], plain.x = x[2];
  swapped.a = x[3], swapped.d = x[4], swapped.x = x[5];
  set_angle(plain, swapped, *memory.record);
}

}  // namespace quantem::dpc_detail
