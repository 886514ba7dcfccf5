#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

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
#ifdef __SANITIZE_THREAD__
  // oneTBB's own synchronisation is not instrumented: under ThreadSanitizer the same work runs on plain threads, whose is.
  std::atomic<std::uint64_t> next = 0;
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&] {
      for (std::uint64_t i; (i = next++) < n;) body(i);
    });
  for (std::thread& t : pool) t.join();
#else
  tbb::task_arena arena(threads);
  arena.execute([&] {
    tbb::parallel_for(
        std::uint64_t{0}, n, [&](std::uint64_t i) { body(i); }, tbb::simple_partitioner());
  });
#endif
}

}  // namespace quantem
