#pragma once
// What each verb does. An answer is one JSON object and the same thing as text; files are written by the verb itself.

#include <string>

#include "quantem/cli/arguments.h"
#include "quantem/cli/describe.h"
#include "quantem/cli/session.h"
#include "quantem/core/result.h"

namespace quantem::cli {

struct Answer {
  Json result = Json::object();
  std::string text;
  int exit_status = 0;  // an answer that is also bad news: a check found a difference, a required device is absent
  std::string failure, failure_code = "check_failed";
};

Result<Answer> doctor(const DoctorArguments& arguments, Session& session);
Result<Answer> info(const InfoArguments& arguments, Session& session);
Result<Answer> products(const ProductsArguments& arguments, Session& session);
Result<Answer> dpc(const DpcVerbArguments& arguments, Session& session);
Result<Answer> simulate(const SimulateArguments& arguments, Session& session);
Result<Answer> convert(const ConvertArguments& arguments, Session& session);

}  // namespace quantem::cli
