#pragma once
// Kernels of the chain from the field's spectrum to the phase, and the maps beside it.
//   solve_periodic  a thread takes bins of half the spectrum; reads 32 bytes, writes 16
//   solve_mirror    a thread takes a bin and its three mirror images; reads 64 bytes, writes 32
//   phase_sums      mean, or skewness, of the phase
//   write_phase, write_maps   a thread takes positions

#include "quantem/dpc/chain_field.cuh"

namespace quantem::dpc_detail {

struct SolvePlan {
  Extent cell;
  Pair step;
  double kappa, epsilon;
  double disc_diameter;  // transfer of the disc; 0: none
  Butterworth filters;
  [[nodiscard]] __device__ double weight(double q2) const {
    double w = kappa / (q2 + epsilon);
    if (disc_diameter > 0) w *= disc_transfer_of(sqrt(q2) / disc_diameter);
    return filters.any() ? w * filters.at(sqrt(q2)) : w;
  }
};

// -i kappa (q_r g_r + q_c g_c) / (|q|^2 + epsilon) * transfer, 0 at q = 0, for columns up to cell.cols / 2.
__global__ void __launch_bounds__(kThreads)
    solve_periodic(const Bin* __restrict__ z, Bin* __restrict__ half, const __grid_constant__ SolvePlan plan) {
  const u32 rows = plan.cell.rows, cols = plan.cell.cols, half_cols = cols / 2 + 1;
  for (u64 i = first_element(); i < u64{rows} * half_cols; i += element_stride()) {
    const u32 r = static_cast<u32>(i / half_cols), c = static_cast<u32>(i % half_cols);
    if (i == 0) {
      half[0] = {0, 0};
      continue;
    }
    const TwoSpectra g = separated(z[u64{r} * cols + c], z[u64{r ? rows - r : 0} * cols + (c ? cols - c : 0)]);
    const double qr = fft_frequency(r, rows, plan.step.row), qc = fft_frequency(c, cols, plan.step.col);
    const double up_r = is_nyquist(r, rows) ? 0 : qr, up_c = is_nyquist(c, cols) ? 0 : qc;
    const double w = plan.weight(qr * qr + qc * qc);
    half[i] = {w * (up_r * g.row.im + up_c * g.col.im), -w * (up_r * g.row.re + up_c * g.col.re)};
  }
}

// cos and sin of pi k / 2 n.
__device__ inline CosSin quarter_turn(u32 k, u32 n) {
  double s = 0, c = 0;
  sincospi(static_cast<double>(k) / (2.0 * n), &s, &c);
  return {c, s};
}

// Coefficient (k1, k2) of the cosine series of the phase. t1, t2: quarter turns of k1, k2; here and across: the components' spectra at (k1, k2)
// and at (k1, -k2), of the reordered field. With w = cos - i sin of either turn,
//   SC = -Im(w1 w2 R(k1, k2) + w1 w2* R(k1, -k2)) / 2   sine in rows, cosine in columns, of the row component
//   CS = -Im(w1 w2 C(k1, k2) - w1 w2* C(k1, -k2)) / 2   the reverse, of the col component
__device__ inline double coefficient(const SolvePlan& plan, u32 k1, u32 k2, CosSin t1, CosSin t2, TwoSpectra here,
                                     TwoSpectra across) {
  if (k1 == plan.cell.rows || k2 == plan.cell.cols || (k1 == 0 && k2 == 0)) return 0;
  const double both_re = t1.cos * t2.cos - t1.sin * t2.sin, both_im = -(t1.sin * t2.cos + t1.cos * t2.sin);
  const double less_re = t1.cos * t2.cos + t1.sin * t2.sin, less_im = t1.cos * t2.sin - t1.sin * t2.cos;
  const auto imaginary = [](double re, double im, Bin b) { return re * b.im + im * b.re; };
  const double sc = -0.5 * (imaginary(both_re, both_im, here.row) + imaginary(less_re, less_im, across.row));
  const double cs = -0.5 * (imaginary(both_re, both_im, here.col) - imaginary(less_re, less_im, across.col));
  const double qr = k1 / (2.0 * plan.cell.rows * plan.step.row), qc = k2 / (2.0 * plan.cell.cols * plan.step.col);
  return -plan.weight(qr * qr + qc * qc) * (qr * sc + qc * cs);
}

__device__ inline Bin conjugate(Bin b) {
  return {b.re, -b.im};
}
__device__ inline TwoSpectra conjugate(const TwoSpectra& g) {
  return {conjugate(g.row), conjugate(g.col)};
}

// F(k1, k2) -> the spectrum of the reordered phase at (k1, k2): w1* w2* (F(k1, k2) - F(n1 - k1, n2 - k2) - i (F(n1 - k1, k2) + F(k1, n2 - k2))).
__device__ inline Bin reordered(CosSin t1, CosSin t2, double same, double both, double row, double col) {
  const double re = t1.cos * t2.cos - t1.sin * t2.sin, im = t1.sin * t2.cos + t1.cos * t2.sin;
  const double a = same - both, b = -(row + col);
  return {re * a - im * b, re * b + im * a};
}

__global__ void __launch_bounds__(kThreads)
    solve_mirror(const Bin* __restrict__ z, Bin* __restrict__ half, const __grid_constant__ SolvePlan plan) {
  const u32 rows = plan.cell.rows, cols = plan.cell.cols, half_cols = cols / 2 + 1;
  for (u64 i = first_element(); i < u64{rows / 2 + 1} * half_cols; i += element_stride()) {
    const u32 k1 = static_cast<u32>(i / half_cols), k2 = static_cast<u32>(i % half_cols);
    const u32 m1 = k1 ? rows - k1 : 0, m2 = k2 ? cols - k2 : 0;
    const Bin here_z = z[u64{k1} * cols + k2], across_z = z[u64{k1} * cols + m2];
    const TwoSpectra here = separated(here_z, z[u64{m1} * cols + m2]);
    const TwoSpectra across = separated(across_z, z[u64{m1} * cols + k2]);
    const CosSin t1 = quarter_turn(k1, rows), t2 = quarter_turn(k2, cols);
    const CosSin u1{t1.sin, t1.cos}, u2{t2.sin, t2.cos};  // of n1 - k1, n2 - k2
    const double same = coefficient(plan, k1, k2, t1, t2, here, across);
    const double row = coefficient(plan, rows - k1, k2, u1, t2, conjugate(across), conjugate(here));
    const double col = coefficient(plan, k1, cols - k2, t1, u2, across, here);
    const double both = coefficient(plan, rows - k1, cols - k2, u1, u2, conjugate(here), conjugate(across));
    half[u64{k1} * half_cols + k2] = reordered(t1, t2, same, both, row, col);
    if (m1 != k1) half[u64{m1} * half_cols + k2] = reordered(u1, t2, row, col, same, both);
  }
}

// Where the phase of scan position (r, c) is on its cell.
__device__ inline u64 solved_at(u32 r, u32 c, Extent scan, Extent cell, Boundary boundary) {
  if (boundary != Boundary::mirror) return u64{r} * cell.cols + c;
  return u64{folded(r, scan.rows)} * cell.cols + folded(c, scan.cols);
}

// `skewness`: of the phase whose sign it decides; else the mean, which is subtracted.
__global__ void __launch_bounds__(kThreads)
    phase_sums(ChainMemory memory, Extent scan, Extent cell, Boundary boundary, bool skewness) {
  double x[3] = {};
  const double scale = 1 / static_cast<double>(count_of(cell)), n = static_cast<double>(count_of(scan));
  for (u64 i = first_element(); i < count_of(scan); i += element_stride()) {
    const u32 r = static_cast<u32>(i / scan.cols), c = static_cast<u32>(i % scan.cols);
    const double v = memory.solved[solved_at(r, c, scan, cell, boundary)] * scale;
    x[0] += v;
    x[1] += v * v;
    x[2] += v * v * v;
  }
  if (!add_grid(x, memory.partials, memory.counter)) return;
  const double mean = x[0] / n, second = x[1] / n - mean * mean;
  if (!skewness) {
    memory.record->phase_mean = mean;
    return;
  }
  const double third = x[2] / n - 3 * mean * x[1] / n + 2 * mean * mean * mean;
  const double found = second > 0 ? third / pow(second, 1.5) : 0;
  memory.record->skewness = found;
  if (found < 0) memory.record->flip = -memory.record->flip;
}

// The mean of a solution on the scan's own cell, or on its mirror images, is 0: F(0) = 0. Else phase_mean has been found.
__global__ void __launch_bounds__(kThreads) write_phase(const ChainMemory memory, Extent scan, Extent cell,
                                                        Boundary boundary, double sign, float* __restrict__ phase) {
  const double scale = 1 / static_cast<double>(count_of(cell)), mean = memory.record->phase_mean;
  const double factor = sign * memory.record->flip;
  for (u64 i = first_element(); i < count_of(scan); i += element_stride()) {
    const u32 r = static_cast<u32>(i / scan.cols), c = static_cast<u32>(i % scan.cols);
    const double v = memory.solved[solved_at(r, c, scan, cell, boundary)] * scale;
    phase[i] = static_cast<float>(factor * (v - mean));
  }
}

__device__ inline float map_value(double x, bool has_value) {
  return has_value ? static_cast<float>(x) : __uint_as_float(0x7FC00000u);
}

__global__ void __launch_bounds__(kThreads)
    write_maps(const ChainMemory memory, Extent scan, Pair step, const StepField field, float* __restrict__ maps) {
  const ChainRecord& record = *memory.record;
  const u64 n = count_of(scan), cols = scan.cols;
  StepField descanned = field;
  descanned.factor = {1, 1};
  descanned.aligned = false;
  const auto at = [&](u64 i) {
    const Bin v = working(memory.row[i], memory.col[i], field, record);
    return Bin{record.flip * v.re, record.flip * v.im};
  };
  for (u64 i = first_element(); i < n; i += element_stride()) {
    const u64 r = i / cols, c = i % cols;
    const bool has_value = !isnan(memory.row[i]);
    const Bin own = working(memory.row[i], memory.col[i], descanned, record), v = at(i);
    maps[com_row * n + i] = map_value(own.re, has_value);
    maps[com_col * n + i] = map_value(own.im, has_value);
    maps[aligned_row * n + i] = map_value(v.re, has_value);
    maps[aligned_col * n + i] = map_value(v.im, has_value);
    maps[magnitude * n + i] = map_value(hypot(v.re, v.im), has_value);
    maps[direction * n + i] = map_value(atan2(v.im, v.re) * 180 / kPi, has_value);
    double div = 0, curl_z = 0;
    const bool inside = r > 0 && r + 1 < scan.rows && c > 0 && c + 1 < cols;
    const bool has_stencil = inside && !isnan(memory.row[i - cols]) && !isnan(memory.row[i + cols]) &&
                             !isnan(memory.row[i - 1]) && !isnan(memory.row[i + 1]);
    if (has_stencil) {
      const Bin up = at(i - cols), down = at(i + cols), left = at(i - 1), right = at(i + 1);
      div = (down.re - up.re) / (2 * step.row) + (right.im - left.im) / (2 * step.col);
      curl_z = (down.im - up.im) / (2 * step.row) - (right.re - left.re) / (2 * step.col);
    }
    maps[divergence * n + i] = map_value(div, has_stencil);
    maps[curl * n + i] = map_value(curl_z, has_stencil);
  }
}

}  // namespace quantem::dpc_detail
