// Where gradients lie in the synchronizer's memory, and how that is cut into buckets.
//
// Gradients are laid out in the reverse of the forward pass, in which the backward pass completes them, one region per element
// type. A bucket is a contiguous range of one region: whole parameters up to its limit, and of a parameter that is larger than
// the limit, pieces. Each parameter begins on a cache line, or on a block of elements where those travel in blocks; the
// elements between two of them are zeros, which are summed along.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gradsync/parameters.h"

namespace gimbal::gradsync {

inline constexpr size_t kGradientAlignment = 64;

struct Bucket {
  DType dtype;
  size_t offset = 0;               // bytes into the memory
  size_t element = 0;              // the first one's number: elements are counted through the whole memory
  size_t count = 0;                // elements
  std::vector<size_t> parameters;  // that have elements in it
  size_t id = 0;                   // its index before any reorder
};

struct Layout {
  std::vector<Bucket> buckets;            // in the order in which they are started
  std::vector<size_t> offsets;            // by parameter: bytes into the memory
  std::vector<size_t> elements;           // by parameter: the number of its first element
  std::vector<std::vector<size_t>> held;  // by parameter: indices of the buckets that have elements of it
  size_t bytes = 0;
  size_t element_count = 0;
};

struct Placement {
  size_t block_elements = 1;  // parameters and buckets begin at a multiple of so many elements
  bool split = true;          // a parameter that is larger than a bucket
};

// Limits are in bytes. The bucket that is started first has a limit of its own.
Layout lay_out(std::span<const Parameter> parameters, size_t first_bucket_bytes, size_t bucket_bytes,
               const Placement& placement = {});

// The same memory with the buckets started in another order: order[i] is the present index of the one to be i-th.
void reorder(Layout& layout, std::span<const size_t> order);

}  // namespace gimbal::gradsync
