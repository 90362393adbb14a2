// Copies of every small size and alignment, and reductions that end at a page that cannot be touched.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/reduce.h"
#include "tests/unit/kernels/reduce_case.h"

namespace gimbal::test {
namespace {

TEST(CopyBytes, CopiesEverySizeAndAlignmentAndNothingElse) {
  constexpr size_t kLast = 200;
  std::vector<unsigned char> source(kLast + 128);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 37 + 1);
  for (const StoreMode store : {StoreMode::kCached, StoreMode::kStreaming}) {
    for (size_t bytes = 0; bytes <= kLast; ++bytes) {
      for (const size_t misalignment : {0, 1, 16, 63}) {
        std::vector<unsigned char> destination(kLast + 128, 0xA5), expected = destination;
        std::copy_n(source.begin() + 3, bytes, expected.begin() + static_cast<std::ptrdiff_t>(misalignment));
        copy_bytes(destination.data() + misalignment, source.data() + 3, bytes, store);
        ASSERT_EQ(destination, expected) << bytes << " bytes at " << misalignment;
      }
    }
  }
}

// A page followed by one that faults.
class GuardPage {
 public:
  GuardPage() : bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* const pages = mmap(nullptr, 2 * bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages_ = static_cast<unsigned char*>(pages);
    mprotect(pages_ + bytes_, bytes_, PROT_NONE);
  }
  ~GuardPage() { munmap(pages_, 2 * bytes_); }
  GuardPage(const GuardPage&) = delete;
  GuardPage& operator=(const GuardPage&) = delete;
  unsigned char* last(size_t bytes) { return pages_ + bytes_ - bytes; }

 private:
  size_t bytes_;
  unsigned char* pages_;
};

TEST(Reduce, NeverTouchesThePageBehindAnArray) {
  GuardPage first, second, out;
  for (int type = 0; type < kPublicDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (const ReduceFunction function : find_reduce_of_every_instruction_set(dtype, ReduceOp::kSum)) {
      for (size_t count = 1; count <= 130; ++count) {
        const size_t bytes = count * dtype_size(dtype);
        const std::array<ReduceSource, 2> sources = {
            {{first.last(bytes), Form::kElement, 1}, {second.last(bytes), Form::kElement, 1}}};
        const std::array<void*, 1> destinations = {out.last(bytes)};
        function({.sources = sources, .destinations = destinations, .count = count});
      }
    }
  }
  EXPECT_EQ(*out.last(1), 0);
}

}  // namespace
}  // namespace gimbal::test
