// A fault for the fuzzer to find: one byte is read past the end of an input that begins with "gim".
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto copy = std::make_unique<uint8_t[]>(bytes);
  if (bytes > 0) std::memcpy(copy.get(), data, bytes);
  if (bytes >= 3 && copy[0] == 'g' && copy[1] == 'i' && copy[2] == 'm') {
    const volatile uint8_t past_the_end = copy[bytes];
    static_cast<void>(past_the_end);
  }
  return 0;
}
