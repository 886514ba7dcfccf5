#include <exception>
#include <ostream>

#include "quantem/cli/cli.h"
#include "quantem/cli/parse.h"
#include "quantem/cli/session.h"
#include "quantem/cli/verbs.h"

namespace quantem {
namespace {

using cli::Answer;
using cli::Arguments;
using cli::Json;
using cli::Session;
using cli::with_option_names;

Result<Answer> run_verb(const Arguments& arguments, Session& session) {
  QUANTEM_TRY(session.start(arguments.common));
  if (arguments.verb == "doctor") return cli::doctor(arguments.doctor, session);
  if (arguments.verb == "info") return cli::info(arguments.info, session);
  if (arguments.verb == "products") return cli::products(arguments.products, session);
  if (arguments.verb == "dpc") return cli::dpc(arguments.dpc, session);
  if (arguments.verb == "simulate") return cli::simulate(arguments.simulate, session);
  return cli::convert(arguments.convert, session);
}

void print_json(std::ostream& out, const std::string& verb, const Answer* answer, const Error* error,
                const std::vector<std::string>& warnings) {
  Json envelope;
  envelope["schema"] = "quantem.gpu.cli/v1";
  envelope["command"] = verb;
  envelope["ok"] = error == nullptr && answer->exit_status == 0;
  envelope["result"] = answer ? answer->result : Json();
  envelope["warnings"] = warnings;
  envelope["error"] = nullptr;
  if (error)
    envelope["error"] = {{"code", code_info(error->code).name}, {"message", error->message}};
  else if (answer->exit_status != 0)
    envelope["error"] = {{"code", answer->failure_code}, {"message", answer->failure}};
  // A name may hold any bytes; JSON holds UTF-8 only.
  out << envelope.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

bool asks_for_json(const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    if (word == "--") return false;
    if (word == "--json") return true;
  }
  return false;
}

int fail(std::ostream& out, std::ostream& err, const std::string& verb, bool json, Error error,
         const std::vector<std::string>& warnings) {
  error.message = with_option_names(error.message);
  if (error.message.starts_with(verb + ": "))
    error.message.erase(0, verb.size() + 2);  // an operation of the verb's name
  if (json) print_json(out, verb, nullptr, &error, warnings);
  err << "quantem-gpu" << (verb.empty() ? "" : " " + verb) << ": " << error.message << '\n' << std::flush;
  return code_info(error.code).exit_status;
}

int run(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, const CliHost& host) {
  const cli::ParsedArguments parsed = cli::parse_arguments(words);
  const std::string& verb = parsed.arguments.verb;
  if (!parsed.help.empty()) {
    out << parsed.help;
    return 0;
  }
  if (!parsed.usage.empty()) {
    const std::string advice = "; see quantem-gpu " + (verb.empty() ? "" : verb + " ") + "--help";
    return fail(out, err, verb, asks_for_json(words), Error{Code::invalid_argument, parsed.usage + advice}, {});
  }
  Session session(host, err);
  const Result<Answer> answer = run_verb(parsed.arguments, session);
  session.end_progress();
  if (!answer) return fail(out, err, verb, parsed.arguments.common.json, answer.error(), session.warnings());
  if (parsed.arguments.common.json)
    print_json(out, verb, &*answer, nullptr, session.warnings());
  else
    out << answer->text;
  out.flush();
  if (answer->exit_status != 0) err << "quantem-gpu " << verb << ": " << answer->failure << '\n' << std::flush;
  if (!out) return fail(out, err, verb, false, Error{Code::io, "stdout cannot be written"}, {});
  return answer->exit_status;
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err, const CliHost& host) {
  // The library does not throw; the standard library and CLI11 can. One place turns that into the documented exit
  // status.
  try {
    return run(arguments, out, err, host);
  } catch (const std::bad_alloc&) {
    err << "quantem-gpu: out of memory; see --memory-limit, --scan-region, --det-bin\n";
    return code_info(Code::out_of_memory).exit_status;
  } catch (const std::exception& error) {
    err << "quantem-gpu: internal error: " << error.what() << "; please report this with the command line\n";
    return code_info(Code::internal).exit_status;
  }
}

}  // namespace quantem
