#pragma once
// SHA-256 through OpenSSL, lower-case hex.

#include <cstddef>
#include <memory>
#include <string>

namespace quantem {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(const void* bytes, std::size_t n_bytes);
  std::string hex();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(const void* bytes, std::size_t n_bytes);

}  // namespace quantem
