#pragma once
// Backends by name. `automatic` is resolved once, when a device is opened, to an accelerator or to an error; never to the CPU.

#include <cstdint>
#include <string_view>

#include "quantem/core/result.h"

namespace quantem {

enum class Backend : std::uint8_t { automatic, cpu, cuda, webgpu };

std::string_view backend_name(Backend backend);        // "auto", "cpu", "cuda", "webgpu"
Result<Backend> parse_backend(std::string_view name);  // invalid_argument listing the names

}  // namespace quantem
