#pragma once
// The device is a property of the calling thread: set for the length of a call, then put back.

#include <cuda_runtime_api.h>

namespace quantem {

class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : device_(device) {
    cudaGetDevice(&before_);
    if (before_ != device) cudaSetDevice(device);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (before_ != device_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0, device_ = 0;
};

}  // namespace quantem
