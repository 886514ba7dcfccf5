#include "quantem/runtime/background.h"

#include <algorithm>
#include <utility>

#include "quantem/runtime/thread_pool.h"

namespace quantem {

Background::Background(int max_threads) : n_threads_(max_threads > 0 ? max_threads : default_thread_count()) {}

Background::~Background() {
  work(true);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Background::start(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  const std::size_t n_beside = static_cast<std::size_t>(n_threads_) - 1;
  if (threads_.size() < std::min(n_beside, n_running_ + waiting_.size()))
    threads_.emplace_back([this] { work(false); });
  changed_.notify_all();
}

// Takes tasks until there is none, or until the end.
void Background::work(bool until_empty) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return until_empty || closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> task = std::move(waiting_.front());
    waiting_.pop_front();
    ++n_running_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    --n_running_;
    if (thrown && !thrown_) thrown_ = thrown;
    changed_.notify_all();
  }
}

void Background::wait() {
  work(true);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && n_running_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace quantem
