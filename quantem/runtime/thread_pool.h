#pragma once
// Work on all cores, over oneTBB. No result depends on the number of threads.

#include <cstdint>
#include <functional>

namespace quantem {

// Calls body(i) for i in [0, n), in any order, on up to `max_threads` threads (0: QUANTEM_GPU_THREADS or all cores).
// body must not throw. Returns when all calls have.
void parallel_for(std::uint64_t n, const std::function<void(std::uint64_t)>& body, int max_threads = 0);

int default_thread_count();

}  // namespace quantem
