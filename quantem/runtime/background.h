#pragma once
// Work that goes on while the caller does something else.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quantem {

// Work beside the caller's own, in any order, on `max_threads` threads (0: QUANTEM_GPU_THREADS or all cores), the caller of wait() being one of them: with one
// thread everything is done there. Threads are made as tasks come.
class Background {
 public:
  explicit Background(int max_threads = 0);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();  // when all tasks are done

  void start(std::function<void()> task);
  void wait();  // Helps; returns when all tasks are done. Throws what a task threw first: no memory.

 private:
  void work(bool until_empty);
  int n_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t n_running_ = 0;
  bool closing_ = false;
  std::exception_ptr thrown_;
  std::vector<std::thread> threads_;
};

}  // namespace quantem
