#pragma once
// The products of centres of mass, for the verbs `products` and `dpc`.

#include <optional>

#include "quantem/cli/arguments.h"
#include "quantem/cli/product.h"
#include "quantem/dpc/dpc.h"

namespace quantem::cli {

struct DeflectionAnswer {
  Json json = Json::object();         // rotation, transpose, polarity, units, boundary, descan, ...
  std::optional<Image<float>> phase;  // iDPC
  std::vector<std::string> lines;     // for people
};

// Options as run_dpc takes them. Units not named: rad where voltage, detector and scan sampling are known, else relative.
Result<DpcOptions> dpc_options(const DpcArguments& arguments, const Calibration& calibration);

// Adds com_row and com_col: absolute, detector axes.
void add_com_maps(const ComField& com, const Calibration& calibration, Collection& collection);

// run_dpc of all counts where they are: volumes of a CUDA device from the counts, without a way through the host; others from the centre of
// mass that is there already.
Result<DpcResult> dpc_where_counts_are(const Volume& volume, const ComField& com, const Calibration& calibration,
                                       const DpcOptions& options);

// Adds dpc_magnitude, dpc_direction and idpc (and, with `details`, the components, divergence and curl) to the collection.
Result<DeflectionAnswer> add_deflection(DpcResult result, const Calibration& calibration, const DpcOptions& options,
                                        bool with_dpc, bool with_idpc, bool details, Collection& collection);

}  // namespace quantem::cli
