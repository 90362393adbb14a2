#include "bench/compare/limit_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/compare/limit_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace compare {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <Stores kStores, typename Vector>
HWY_INLINE void put(Vector sum, float* to) {
  const hn::ScalableTag<float> tag;
  if constexpr (kStores == Stores::kStreaming) {
    hn::Stream(sum, tag, to);
  } else {
    hn::StoreU(sum, tag, to);
  }
}

// second is not touched unless kTwo.
template <Stores kStores, bool kTwo>
HWY_INLINE void add(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT first,
                    float* HWY_RESTRICT second, size_t count) {
  const hn::ScalableTag<float> tag;
  const size_t lanes = hn::Lanes(tag);
  size_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    const auto sum = hn::Add(hn::LoadU(tag, a + k), hn::LoadU(tag, b + k));
    put<kStores>(sum, first + k);
    if constexpr (kTwo) put<kStores>(sum, second + k);
  }
  for (; k < count; ++k) {
    first[k] = a[k] + b[k];
    if constexpr (kTwo) second[k] = first[k];
  }
  if constexpr (kStores == Stores::kStreaming) hwy::FlushStream();
}

void one_ordinary(const float* a, const float* b, float* to, size_t count) {
  add<Stores::kOrdinary, false>(a, b, to, nullptr, count);
}
void one_streaming(const float* a, const float* b, float* to, size_t count) {
  add<Stores::kStreaming, false>(a, b, to, nullptr, count);
}
void two_ordinary(const float* a, const float* b, float* first, float* second, size_t count) {
  add<Stores::kOrdinary, true>(a, b, first, second, count);
}
void two_streaming(const float* a, const float* b, float* first, float* second, size_t count) {
  add<Stores::kStreaming, true>(a, b, first, second, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace compare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace compare {

HWY_EXPORT(one_ordinary);
HWY_EXPORT(one_streaming);
HWY_EXPORT(two_ordinary);
HWY_EXPORT(two_streaming);

void add_into_one(const float* a, const float* b, float* to, size_t count, Stores stores) {
  switch (stores) {
    case Stores::kOrdinary:
      return HWY_DYNAMIC_DISPATCH(one_ordinary)(a, b, to, count);
    case Stores::kStreaming:
      return HWY_DYNAMIC_DISPATCH(one_streaming)(a, b, to, count);
  }
}

void add_into_two(const float* a, const float* b, float* first, float* second, size_t count, Stores stores) {
  switch (stores) {
    case Stores::kOrdinary:
      return HWY_DYNAMIC_DISPATCH(two_ordinary)(a, b, first, second, count);
    case Stores::kStreaming:
      return HWY_DYNAMIC_DISPATCH(two_streaming)(a, b, first, second, count);
  }
}

}  // namespace compare
#endif
