// A value that all ranks of a test share, be they threads or processes made by fork(): zeros at first, its words atomics.
#pragma once

#include <sys/mman.h>

#include <new>

namespace gimbal::test {

template <typename T>
class Shared {
 public:
  Shared() {
    void* const memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    value_ = new (memory) T();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { munmap(value_, sizeof(T)); }

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

}  // namespace gimbal::test
