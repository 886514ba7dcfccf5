#pragma once
// What `products` and `dpc` do alike: open and load each acquisition of a series, and write the folder of results.

#include <functional>
#include <string>
#include <vector>

#include "quantem/cli/arguments.h"
#include "quantem/cli/product.h"
#include "quantem/cli/session.h"
#include "quantem/cli/verbs.h"
#include "quantem/io/container.h"
#include "quantem/resident/volume.h"

namespace quantem::cli {

struct Acquisition {
  Container container;
  Volume volume;
  Calibration calibration;  // the volume's; verbs add what follows from the disc
};

// One acquisition's results into `output`.
using MakeResults = std::function<Result<Answer>(Acquisition, Collection, OutputSet&)>;

// Checks every option and every target first, then loads the files one after the other and hands each to `make`. One file
// writes into DIR; several are a series, each in DIR/STEM, with one acquisition in memory at a time. A series stops at the first file that
// fails, named in the error; folders that are complete stay. With --on-error skip a file that cannot be loaded is listed in
// result["skipped"], with the reason, and the others go on; all of them failing is the first one's error.
Result<Answer> for_each_acquisition(const ResultArguments& arguments, Session& session,
                                    const std::vector<std::string>& planned_products,
                                    const std::vector<std::string>& planned_pictures, const MakeResults& make);

// What an answer says beside its products.
struct Findings {
  const char* command;
  Json report = Json::object();            // facts of this verb, after those of the acquisition
  std::vector<std::string> lines = {};     // the same for people
  std::optional<Image<float>> phase = {};  // compared with --truth
};
// The report, the sheet and all files of the collection, complete or not at all.
Result<Answer> write_results(Acquisition acquisition, const Findings& findings, const ResultArguments& arguments,
                             Collection& collection, OutputSet& output, Session& session);

}  // namespace quantem::cli
