#pragma once
// com_row = sum of dr M I / sum of M I,  com_col = sum of dc M I / sum of M I, per scan position
//   counts   u8 u16 u32 i16 i32 f32  (scan_rows, scan_cols, det_rows, det_cols)
//   mask     1 bit                   (det_rows, det_cols); null: all valid pixels, bit for bit what an all-true mask gives
//   weights  fixed-point             (det_rows, det_cols); in the place of M, see Weights; integer counts only
//   maps     f32                     (scan_rows, scan_cols); detector pixels, absolute: pixel i is at coordinate i
// Numerators and denominators are exact integers for integer counts (64 bits) and doubles in pixel order for float
// counts; the value is f32(double(num) / double(den)). Bitwise on cpu and cuda. Nothing is subtracted here: see descan.
// No value (NaN, `valid` cleared): a missing position, a sum of 0, a negative sum of signed or float or weighted counts (flagged
// `negative_total`), a selected float sample that is not finite. An empty mask gives no value anywhere and warns
// `empty_mask`. Uniform 192x192: (95.5, 95.5). Errors: invalid_argument when the mask's shape is not the detector's,
// and where weighted sums could pass 64 bits; wrong_dtype for weights on float counts.
// Source: contract C53, C54; phase.md 2.

#include "quantem/core/job.h"
#include "quantem/detector/geometry.h"
#include "quantem/dpc/descan.h"
#include "quantem/dpc/field.h"
#include "quantem/resident/volume.h"

namespace quantem {

// Before the one rounding.
Result<ComField> com_field(const Volume& volume, const Mask* mask = nullptr, const Job& job = {});
Result<ComField> com_field(const Volume& volume, const Weights& weights, const Job& job = {});
Result<ComMaps> center_of_mass(const Volume& volume, const Mask* mask = nullptr, const Job& job = {});

}  // namespace quantem
