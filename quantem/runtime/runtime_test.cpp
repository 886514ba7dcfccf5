// Devices and the thread pool.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <vector>

#include "quantem/runtime/background.h"
#include "quantem/runtime/cuda_context.h"
#include "quantem/runtime/device.h"
#include "quantem/runtime/thread_pool.h"

namespace quantem {
namespace {

TEST(ThreadPool, EveryIndexOnceForEveryThreadCount) {
  for (const int threads : {0, 1, 2, 5}) {
    std::vector<std::atomic<int>> hits(1000);
    parallel_for(
        hits.size(), [&](std::uint64_t i) { ++hits[i]; }, threads);
    for (const auto& h : hits) EXPECT_EQ(h, 1);
  }
  parallel_for(0, [](std::uint64_t) { FAIL(); });
}

TEST(Background, EveryTaskOnceForEveryThreadCountAndWaitsForAll) {
  for (const int threads : {0, 1, 2, 5}) {
    std::vector<std::atomic<int>> hits(100);
    Background background(threads);
    for (int round = 1; round <= 2; ++round) {
      for (auto& h : hits) background.start([&h] { ++h; });
      background.wait();
      for (const auto& h : hits) EXPECT_EQ(h, round);
    }
    background.start([&] { ++hits[0]; });  // done before the end
  }
}

TEST(Background, OneThreadIsTheCallersAndOthersAreNot) {
  std::thread::id where;
  Background alone(1), beside(2);
  alone.start([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::thread::id());
  alone.wait();
  EXPECT_EQ(where, std::this_thread::get_id());
  std::atomic<bool> done{false};
  beside.start([&] { done = true; });
  while (!done) std::this_thread::yield();  // without wait()
}

TEST(Background, WaitThrowsWhatATaskThrewAfterTheOthers) {
  Background background(2);
  std::atomic<int> n{0};
  background.start([] { throw std::bad_alloc(); });
  for (int i = 0; i < 10; ++i) background.start([&] { ++n; });
  EXPECT_THROW(background.wait(), std::bad_alloc);
  EXPECT_EQ(n, 10);
  background.wait();
}

TEST(Device, C78_AutomaticIsAnAcceleratorOrAnError) {
  const auto device = open_device(Backend::automatic);
  if (list_cuda_devices().devices.empty()) {
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::device);
    EXPECT_NE(device.error().message.find("ask for backend='cpu' by name"), std::string::npos);
  } else {
    ASSERT_TRUE(device);
    EXPECT_EQ(device->backend(), Backend::cuda);
  }
}

TEST(Device, M04_AnAbsentDeviceIsAnAnswerWithinASecond) {
  const auto start = std::chrono::steady_clock::now();
  const auto list = list_cuda_devices();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  if (list.devices.empty()) {
    EXPECT_FALSE(list.reason.empty());
    const auto cuda = open_device(Backend::cuda);
    ASSERT_FALSE(cuda);
    EXPECT_EQ(cuda.error().message, "cuda: " + list.reason);
  }
}

TEST(Device, CpuOpensByNameAndCountsMemory) {
  const auto cpu = open_device(Backend::cpu);
  ASSERT_TRUE(cpu);
  EXPECT_EQ(cpu->label(), "cpu");
  EXPECT_GT(cpu->usable_bytes(), 0u);
  const auto limited = open_device(Backend::cpu, 0, {.memory_limit_bytes = 1000});
  EXPECT_LE(limited->usable_bytes(), 1000u);
  EXPECT_FALSE(open_device(Backend::cpu, 1));
  EXPECT_FALSE(parse_backend("gpu"));
}

TEST(Device, C85_UsableMemoryIsWhatIsFreeNow) {
  const auto device = open_device(Backend::cuda);
  if (!device) GTEST_SKIP() << "no CUDA device: " << list_cuda_devices().reason;
  const auto context = CudaContext::of(*device);
  ASSERT_TRUE(context) << context.error().message;
  const std::uint64_t before = device->usable_bytes(), taken = std::uint64_t{256} << 20;
  const auto memory = (*context)->allocate(taken, "test");
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_LE(device->usable_bytes(), before - taken);
}

}  // namespace
}  // namespace quantem
