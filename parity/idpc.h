#pragma once
// The row `idpc`: counts -> centre of mass -> mean descan -> a given angle and exchange -> phase, periodic and mirrored. Each phase is
// divided by its largest value, so that the bound is relative. No search: these counts are noise, whose curl says nothing.

#include "parity/table.h"

namespace quantem::parity {

Result<Outcome> run_idpc(const Volume& volume, const Truth& truth);
std::vector<Output> oracle_idpc(const Truth& truth);

}  // namespace quantem::parity
