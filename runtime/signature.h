// What ranks must agree on in one operation, in a form that is cheap to compare and can be read by people.
#pragma once

#include <cstdint>
#include <string>

#include "base/types.h"
#include "runtime/call.h"

namespace gimbal {

struct Signature {
  uint32_t sequence = 0;  // of the communicator's collectives, from 1; 0: a message
  uint64_t count = 0;
  uint32_t kind = 0;  // collective, type, operation and flags, packed
  int32_t root = -1;

  friend bool operator==(const Signature&, const Signature&) = default;
};

Signature make_signature(const Call& call, uint32_t sequence);

// 32 bits over all fields; equal signatures hash equal. 2^-32 of the mismatches pass the hash; they are found where the fields
// are compared.
uint32_t hash_signature(const Signature& signature);

// "all_reduce #17 (count 100, float, sum)", "broadcast #3 (count 5, int32, root 2)".
std::string describe(const Signature& signature);

// Its parts by name; op is "" for what does not reduce.
struct SignatureNames {
  std::string collective;
  std::string dtype;
  std::string op;
};
SignatureNames name_parts(const Signature& signature);

}  // namespace gimbal
