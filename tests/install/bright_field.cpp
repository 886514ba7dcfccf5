// The bright field of an acquisition: bright_field scan_master.h5
#include <cstdio>

#include "quantem/detector/session.h"
#include "quantem/io/load.h"

using namespace quantem;

Result<Image<float>> bright_field(const char* file) {
  QUANTEM_TRY_ASSIGN(device, open_device(Backend::cpu));
  QUANTEM_TRY_ASSIGN(container, inspect(file));         // headers only
  QUANTEM_TRY_ASSIGN(volume, load(device, container));  // every count, encoded
  QUANTEM_TRY_ASSIGN(session, prepare(volume));         // finds the disc once, keeps what queries share
  return session.band(Band::bf);
}

int main(int n, char** arguments) {
  const auto image = bright_field(n > 1 ? arguments[1] : "");
  if (!image) return std::fprintf(stderr, "%s\n", image.error().message.c_str()), 1;
  std::printf("%u x %u, first value %.0f %s\n", image->extent.rows, image->extent.cols,
              static_cast<double>(image->values[0]), image->unit.c_str());
}
