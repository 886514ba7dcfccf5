#pragma once
// The messages of an object header, versions 1 and 2, read from the bytes of the file. Addresses and lengths of 8 bytes only.

#include <cstdint>
#include <functional>
#include <span>

#include "quantem/io/hdf5_chunks.h"

namespace quantem::hdf5 {

struct HeaderMessage {
  std::uint64_t type = 0, address = 0;  // address: of the body in the file
  bool shared = false;                  // the body says where the message lies
  std::span<const unsigned char> body;
};

// Calls visit(message) in the order of libhdf5 until it returns false. Returns what is wrong with the header, or null; what visit
// makes of the messages before the fault stands.
const char* walk_header(const RawFile& file, std::uint64_t address,
                        const std::function<bool(const HeaderMessage&)>& visit);

}  // namespace quantem::hdf5
