#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstdlib>
#include <thread>

#include "quantem/runtime/thread_pool.h"

namespace quantem {

int default_thread_count() {
  static const int count = [] {
    if (const char* text = std::getenv("QUANTEM_GPU_THREADS"))
      if (const int n = std::atoi(text); n > 0) return n;
    return tbb::this_task_arena::max_concurrency();
  }();
  return count;
}

void parallel_for(std::uint64_t n, const std::function<void(std::uint64_t)>& body, int max_threads) {
  const int threads = max_threads > 0 ? max_threads : default_thread_count();
  if (threads == 1 || n <= 1) {
    for (std::uint64_t i = 0; i < n; ++i) body(i);
    return;
  }
  tbb::task_arena arena(threads);
  arena.execute([&] {
    tbb::parallel_for(std::uint64_t{0}, n, [&](std::uint64_t i) { body(i); }, tbb::simple_partitioner());
  });
}

}  // namespace quantem
