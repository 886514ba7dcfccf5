#include "quantem/core/sha256.h"

#include <openssl/evp.h>

namespace quantem {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
}
Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, std::size_t n_bytes) {
  EVP_DigestUpdate(state_->context, bytes, n_bytes);
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  EVP_DigestFinal_ex(state_->context, digest, &n);
  std::string out;
  for (unsigned i = 0; i < n; ++i) {
    out += "0123456789abcdef"[digest[i] >> 4];
    out += "0123456789abcdef"[digest[i] & 15];
  }
  return out;
}

std::string sha256_hex(const void* bytes, std::size_t n_bytes) {
  Sha256 hash;
  hash.update(bytes, n_bytes);
  return hash.hex();
}

}  // namespace quantem
