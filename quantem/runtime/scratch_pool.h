#pragma once
// Scratch objects that tasks borrow, one at a time each; made when none is free, gone with the pool. Unlike
// thread_local storage nothing stays allocated after the call that owns the pool.

#include <memory>
#include <mutex>
#include <vector>

namespace quantem {

template <class T>
class ScratchPool {
 public:
  class Loan {
   public:
    Loan(ScratchPool& pool, std::unique_ptr<T> object) : pool_(pool), object_(std::move(object)) {}
    ~Loan() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(object_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    ScratchPool& pool_;
    std::unique_ptr<T> object_;
  };

  Loan borrow() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return Loan(*this, std::make_unique<T>());
    std::unique_ptr<T> object = std::move(free_.back());
    free_.pop_back();
    return Loan(*this, std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace quantem
