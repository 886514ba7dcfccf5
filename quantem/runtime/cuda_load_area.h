#pragma once
// What loads work in on a CUDA device: scratch in device memory and pinned host memory, kept for the process. Allocating and freeing it for
// each load costs milliseconds (pinned memory 0.4 ms a MiB), as much as a good part of the load.
//
// One load a device at a time has the area; the next waits. release_load_area() gives the memory back; CudaContext::allocate() does so by
// itself before it says that a device is full. Device bytes that are kept count as free: CudaContext::free_bytes().

#include <cstdint>

#include "quantem/core/result.h"

namespace quantem {

class CudaContext;

class CudaLoadArea {
 public:
  // Waits until no other load of this device has it. No work may be queued on its memory when this goes.
  explicit CudaLoadArea(CudaContext& context);
  CudaLoadArea(const CudaLoadArea&) = delete;
  CudaLoadArea& operator=(const CudaLoadArea&) = delete;
  ~CudaLoadArea();

  // At least n_bytes of device memory with 256 readable bytes behind, and of pinned host memory. Each is one piece: asking again may move
  // it. out_of_memory names need and free.
  Result<void*> device_bytes(std::uint64_t n_bytes);
  Result<void*> pinned_bytes(std::uint64_t n_bytes);

 private:
  CudaContext* context_;
};

std::uint64_t kept_load_bytes(int device);  // device memory that is kept and no load has
void release_load_area(int device);         // does nothing while a load has it

// Pieces of one allocation, each aligned to 256 bytes.
class AreaPieces {
 public:
  explicit AreaPieces(void* begin) : at_(static_cast<char*>(begin)) {}
  static constexpr std::uint64_t rounded(std::uint64_t n_bytes) { return (n_bytes + 255) / 256 * 256; }
  template <class T>
  void take(T*& pointer, std::uint64_t n_bytes) {
    pointer = static_cast<T*>(static_cast<void*>(at_));
    at_ += rounded(n_bytes);
  }

 private:
  char* at_;
};

}  // namespace quantem
