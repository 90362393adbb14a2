// Numbers with units, as people write them in options and variables. One parser, so that "64K", "600s" and "12abc" mean the
// same everywhere; the error says the value and what is allowed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace gimbal {

// Bytes: digits, an optional fraction, an optional K, M, G, T or P (binary, either case, an "iB" or "B" may follow). "1.5M" is
// 1572864. Rejects signs, rubbish and what does not fit in 63 bits.
Result<uint64_t> parse_bytes(std::string_view text);

// A duration: digits with an optional fraction and a unit: us, ms, s, m, h. Without a unit: seconds. "600s", "1.5m", "10us".
Result<int64_t> parse_duration_ns(std::string_view text);
// The same, rounded to milliseconds.
Result<int64_t> parse_duration_ms(std::string_view text);

// A whole number in [minimum, maximum].
Result<int64_t> parse_integer(std::string_view text, int64_t minimum, int64_t maximum);

// 0/1, false/true, no/yes, off/on, in either case.
Result<bool> parse_bool(std::string_view text);

}  // namespace gimbal
