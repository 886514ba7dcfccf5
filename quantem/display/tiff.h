#pragma once
// A float image as a TIFF that image programs open with its values: baseline TIFF 6.0, little-endian, one uncompressed strip of
// IEEE 32-bit floats (SampleFormat 3), rows from the top. Pixels without a value are NaN. Exact: the floats bit for bit. The
// same image gives the same bytes: no time stamp.
// Errors: invalid_argument for an image whose values disagree with its extent; unsupported from 4 GB on (32-bit offsets).
// Source: TIFF 6.0 (Aldus, 1992), sections 2 to 8 and 19.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quantem/core/array.h"
#include "quantem/core/result.h"

namespace quantem {

struct TiffOptions {
  std::string description;           // ImageDescription: 7-bit text; other bytes become '?'
  std::optional<Pair> pixel_size_A;  // written as pixels per centimetre; leave out what is no length
};

Result<std::vector<std::uint8_t>> encode_tiff(const Grid<float>& image, const TiffOptions& options = {});

}  // namespace quantem
