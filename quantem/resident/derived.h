#pragma once
// What operations compute once for a volume and keep with it (expected costs, plans). One value a type, made by the first
// caller, shared by all copies of the volume; never part of a result.

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quantem {

class Derived {
 public:
  // The value of type T, from `make()` (a T) the first time.
  template <class T, class Make>
  [[nodiscard]] std::shared_ptr<const T> get(Make make) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, value] : values_)
      if (key == &kKey<T>) return std::static_pointer_cast<const T>(value);
    auto made = std::make_shared<const T>(make());
    values_.emplace_back(&kKey<T>, made);
    return made;
  }

 private:
  template <class T>
  static constexpr char kKey = 0;  // its address is the type's key
  std::mutex mutex_;
  std::vector<std::pair<const void*, std::shared_ptr<const void>>> values_;
};

}  // namespace quantem
