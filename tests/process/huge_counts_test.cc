// Case C09: counts and bytes that do not fit in 31 or 32 bits.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <random>

#include "tests/support/communicator.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 2;
constexpr size_t kPeriod = 7;

// Memory that programs may still take, from /proc/meminfo; 0 when it does not say.
size_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  size_t kibibytes = 0;
  for (std::string unit; meminfo >> key >> kibibytes >> unit;) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

// Pages straight from the kernel: a vector would write them all once more.
template <typename T>
class Pages {
 public:
  explicit Pages(size_t count) : bytes_(count * sizeof(T)) {
    void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(pages);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] T* data() { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

template <typename T>
void expect_right_in_place_sum(size_t count, gimbal_dtype_t dtype) {
  // A fifth more than the buffers for everything else, the library's staging included.
  const size_t needed = static_cast<size_t>(kRanks) * count * sizeof(T) / 5 * 6;
  if (available_bytes() < needed) GTEST_SKIP() << needed << " bytes are needed, " << available_bytes() << " are available";
  run_ranks(RankKind::kProcesses, kRanks, [&](const RankContext& context) {
    Communicator communicator(context);
    Pages<T> pages(count);
    T* values = pages.data();
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i % kPeriod);
    communicator.all_reduce(values, values, count, dtype, GIMBAL_SUM);
    std::vector<size_t> places = {0, count - 1};
    for (const size_t boundary : {(size_t{1} << 31) - 1, size_t{1} << 31, (size_t{1} << 32) / sizeof(T) - 1}) {
      if (boundary < count) places.push_back(boundary);
    }
    std::mt19937_64 random(1);
    for (size_t i = 0; i < 1000; ++i) places.push_back(random() % count);
    for (const size_t place : places)
      ASSERT_EQ(values[place], static_cast<T>(kRanks * (place % kPeriod))) << "element " << place;
  });
}

class HugeCount : public RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    if (kSanitized) GTEST_SKIP() << "a sanitizer multiplies memory and time";
  }
};

TEST_F(HugeCount, OfMoreThanTwoToThe31BytesIsReducedWhole) {
  expect_right_in_place_sum<uint8_t>((size_t{1} << 31) + 3, GIMBAL_UINT8);
}

class LongHugeCount : public HugeCount {};

TEST_F(LongHugeCount, OfMoreThanTwoToThe32BytesIsReducedWhole) {
  expect_right_in_place_sum<uint8_t>((size_t{1} << 32) + 5, GIMBAL_UINT8);
}

TEST_F(LongHugeCount, OfMoreThan4GibibytesOfFloatsIsReducedWhole) {
  expect_right_in_place_sum<float>((size_t{1} << 30) + 4, GIMBAL_FLOAT32);
}

}  // namespace
}  // namespace gimbal::test
