// The inner loops of a reduction. Compiled once per instruction set.
//
// A specification says how one type and operation treats vectors:
//   Element, Partial             lane types in memory
//   decode(d, elements) -> v     elements as lanes of the accumulator
//   encode(d, v)                 back, rounded
//   combine(d, a, b)             the operation
//   scale(d, v, w)  divide(d, v, w)
//   decode_partials(d, v)  encode_partials(d, v)
// All arithmetic is lane by lane, and a tail uses the same vectors as the body with idle lanes: bits never depend on position.

#if defined(GIMBAL_KERNELS_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GIMBAL_KERNELS_REDUCE_INL_H_
#undef GIMBAL_KERNELS_REDUCE_INL_H_
#else
#define GIMBAL_KERNELS_REDUCE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <array>
#include <cstring>

#include "kernels/block_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The first n lanes of a vector at p; the other lanes are zero and their memory is not touched.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, size_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* p, size_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
#else
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#endif
}

// Which array of lanes a loop reads or writes, and how a vector of the accumulator comes from it and goes to it.
template <class Spec>
struct Elements {
  using Lane = typename Spec::Element;
  using D = hn::ScalableTag<typename Spec::Partial>;
  using Memory = hn::Rebind<Lane, D>;
  template <class V>
  static HWY_INLINE hn::Vec<D> decode(V v) {
    return Spec::decode(D(), v);
  }
  static HWY_INLINE hn::Vec<Memory> encode(hn::Vec<D> v, bool divides, hn::Vec<D> divisor) {
    if (divides) v = Spec::divide(D(), v, divisor);
    return Spec::encode(D(), v);
  }
};

template <class Spec>
struct Partials {
  using Lane = typename Spec::Partial;
  using D = hn::ScalableTag<Lane>;
  using Memory = D;
  static HWY_INLINE hn::Vec<D> decode(hn::Vec<D> v) { return Spec::decode_partials(D(), v); }
  static HWY_INLINE hn::Vec<D> encode(hn::Vec<D> v, bool, hn::Vec<D>) { return Spec::encode_partials(D(), v); }
};

// Position and, in a tail, number of the lanes at hand.
struct Whole {
  size_t at;
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load(D d, const T* p) const {
    return hn::LoadU(d, p + at);
  }
  template <class D, typename T>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* p) const {
    hn::StoreU(v, d, p + at);
  }
};

struct Tail {
  size_t at;
  size_t lanes;
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load(D d, const T* p) const {
    return load_first(d, p + at, lanes);
  }
  template <class D, typename T>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* p) const {
    store_first(v, d, p + at, lanes);
  }
};

template <class In, class Position>
HWY_INLINE hn::Vec<typename In::D> load_operand(const void* operand, Position position) {
  return In::decode(position.load(typename In::Memory(), static_cast<const typename In::Lane*>(operand)));
}

enum class Shape { kFold, kTree };

// Operands kFirst..kFirst+kCount-1 combined in the given shape.
template <class Spec, Shape kShape, size_t kFirst, size_t kCount, class Operands, class Position>
HWY_INLINE hn::Vec<typename Elements<Spec>::D> combine(const Operands& operands, Position position) {
  if constexpr (kCount == 1) {
    return load_operand<Elements<Spec>>(operands[kFirst], position);
  } else {
    constexpr size_t kLeft = kShape == Shape::kTree ? left_leaves(kCount) : kCount - 1;
    const auto left = combine<Spec, kShape, kFirst, kLeft>(operands, position);
    return Spec::combine(typename Elements<Spec>::D(), left,
                         combine<Spec, kShape, kFirst + kLeft, kCount - kLeft>(operands, position));
  }
}

// The pointers by value: a compiler must assume that stores to a destination change pointers in memory, and loads them again.
template <size_t kCount>
HWY_INLINE std::array<const void*, kCount> copy_pointers(const void* const* operands) {
  std::array<const void*, kCount> result;
  for (size_t i = 0; i < kCount; ++i) result[i] = operands[i];
  return result;
}

// The lanes that a loop makes from its operands at a position.
template <class Spec, Shape kShape, size_t kCount>
struct CombineElements {
  std::array<const void*, kCount> operands;
  template <class Position>
  HWY_INLINE hn::Vec<typename Elements<Spec>::D> operator()(Position position) const {
    return combine<Spec, kShape, 0, kCount>(operands, position);
  }
};

// partials ∘ o0 ∘ o1 ∘ ... ∘ o7.
template <class Spec>
struct AccumulateEight {
  const void* partials;
  std::array<const void*, kMaxLoopOperands> operands;
  template <size_t kNext = 0, class Position, class V>
  HWY_INLINE V add(V v, Position position) const {
    if constexpr (kNext == kMaxLoopOperands) {
      return v;
    } else {
      const auto operand = load_operand<Elements<Spec>>(operands[kNext], position);
      return add<kNext + 1>(Spec::combine(typename Elements<Spec>::D(), v, operand), position);
    }
  }
  template <class Position>
  HWY_INLINE hn::Vec<typename Elements<Spec>::D> operator()(Position position) const {
    return add(load_operand<Partials<Spec>>(partials, position), position);
  }
};

template <class Spec, class In, bool kLoad>
struct AccumulateOne {
  using D = typename In::D;
  const void* partials;
  const void* operand;
  hn::Vec<D> weight;
  template <class Position>
  HWY_INLINE hn::Vec<D> operator()(Position position) const {
    const auto scaled = Spec::scale(D(), load_operand<In>(operand, position), weight);
    if constexpr (kLoad) return scaled;
    return Spec::combine(D(), load_operand<Partials<Spec>>(partials, position), scaled);
  }
};

// Vectors that follow each other. Those of a cache line are stored in one go, so that its write-combining buffer fills at once.
template <class D, class... V>
HWY_INLINE void store_group(D d, hn::TFromD<D>* to, bool streams, V... vectors) {
  // Highway streams what is shorter as 16 bytes.
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) >= 16) {
    if (streams) {
      ((hn::Stream(vectors, d, to), to += hn::Lanes(d)), ...);
      return;
    }
  }
  ((hn::StoreU(vectors, d, to), to += hn::Lanes(d)), ...);
}

// Which destinations and which stores is decided group by group: the branches are always predicted and hide behind the loads,
// and a loop for each combination would multiply the code.
template <class Out, class... V>
HWY_INLINE void store_to_all(const Outputs& outputs, size_t at, V... vectors) {
  using Lane = typename Out::Lane;
  const typename Out::Memory memory;
  store_group(memory, static_cast<Lane*>(outputs.first) + at, outputs.streamed > 0, vectors...);
  for (size_t k = 0; k < outputs.others.size(); ++k) {
    store_group(memory, static_cast<Lane*>(outputs.other(k)) + at, outputs.streamed > k + 1, vectors...);
  }
}

// Runs over the lanes of whole groups of kUnroll vectors and returns their number. The vectors of a group are loaded before the
// first of them is stored, so that their latencies overlap.
template <class Out, size_t kUnroll, class Make>
HWY_INLINE size_t run_unrolled(const Make& make, const Outputs& outputs, size_t count, bool divides,
                               hn::Vec<typename Out::D> divisor) {
  const size_t lanes = hn::Lanes(typename Out::D());
  size_t i = 0;
  for (; i + kUnroll * lanes <= count; i += kUnroll * lanes) {
    if constexpr (kUnroll == 4) {
      const auto v0 = make(Whole{i}), v1 = make(Whole{i + lanes});
      const auto v2 = make(Whole{i + 2 * lanes}), v3 = make(Whole{i + 3 * lanes});
      store_to_all<Out>(outputs, i, Out::encode(v0, divides, divisor), Out::encode(v1, divides, divisor),
                        Out::encode(v2, divides, divisor), Out::encode(v3, divides, divisor));
    } else {
      static_assert(kUnroll == 2);
      const auto v0 = make(Whole{i}), v1 = make(Whole{i + lanes});
      store_to_all<Out>(outputs, i, Out::encode(v0, divides, divisor), Out::encode(v1, divides, divisor));
    }
  }
  return i;
}

// Computes and stores, through the cache, the lanes at a position.
template <class Out, class Make, class Position>
HWY_INLINE void run_once(const Make& make, const Outputs& outputs, Position position, bool divides,
                         hn::Vec<typename Out::D> divisor) {
  using Lane = typename Out::Lane;
  const typename Out::Memory memory;
  const auto v = Out::encode(make(position), divides, divisor);
  position.store(v, memory, static_cast<Lane*>(outputs.first));
  for (size_t k = 0; k < outputs.others.size(); ++k) position.store(v, memory, static_cast<Lane*>(outputs.other(k)));
}

// Runs over count lanes. The outputs by value, for the reason of copy_pointers.
template <class Out, size_t kUnroll, class Make>
HWY_INLINE void run_loop(const Make& make, const Outputs outputs, size_t count, double divisor_value) {
  const typename Out::D d;
  const size_t lanes = hn::Lanes(d);
  const bool divides = divisor_value != 1;
  const auto divisor = hn::Set(d, static_cast<hn::TFromD<typename Out::D>>(divisor_value));
  // Without vectors there is no tail and nothing to unroll: a fifth of the code to compile, most of all under a sanitizer.
  constexpr bool kVectors = hn::MaxLanes(d) > 1;
  size_t i = 0;
  if constexpr (kVectors) i = run_unrolled<Out, kUnroll>(make, outputs, count, divides, divisor);
  for (; i + lanes <= count; i += lanes) run_once<Out>(make, outputs, Whole{i}, divides, divisor);
  if constexpr (kVectors) {
    if (i < count) run_once<Out>(make, outputs, Tail{i, count - i}, divides, divisor);
  }
}

template <class Spec, class Out, Shape kShape, size_t kCount>
void combine_loop(const void* const* operands, const Outputs& outputs, size_t count, double divisor) {
  constexpr size_t kUnroll = kCount <= 4 ? 4 : 2;
  run_loop<Out, kUnroll>(CombineElements<Spec, kShape, kCount>{copy_pointers<kCount>(operands)}, outputs, count, divisor);
}

template <class Spec>
void accumulate8_loop(const void* const* operands, const Outputs& partials, size_t count, double) {
  const AccumulateEight<Spec> make{partials.first, copy_pointers<kMaxLoopOperands>(operands)};
  run_loop<Partials<Spec>, 2>(make, Outputs{partials.first}, count, 1);
}

template <class Spec, class In, bool kLoad>
void accumulate_loop(void* partials, const void* operand, size_t count, double weight) {
  using D = typename In::D;
  const auto scale = hn::Set(D(), static_cast<hn::TFromD<D>>(weight));
  run_loop<Partials<Spec>, 2>(AccumulateOne<Spec, In, kLoad>{partials, operand, scale}, Outputs{partials}, count, 1);
}

template <class Spec>
struct LoadPartials {
  const void* partials;
  template <class Position>
  HWY_INLINE hn::Vec<typename Partials<Spec>::D> operator()(Position position) const {
    return load_operand<Partials<Spec>>(partials, position);
  }
};

template <class Spec>
void round_loop(const void* const* operands, const Outputs& outputs, size_t count, double divisor) {
  run_loop<Elements<Spec>, 2>(LoadPartials<Spec>{operands[0]}, outputs, count, divisor);
}

// Fills the loops over kCount and more operands.
template <class Spec, size_t kLast, size_t kCount = 1>
constexpr void add_loops(BlockKernels& kernels) {
  using E = Elements<Spec>;
  kernels.fold[kCount] = combine_loop<Spec, E, Shape::kFold, kCount>;
  kernels.tree[kCount] = kernels.fold[kCount];
  if constexpr (Spec::kOrdered && kCount >= 4) kernels.tree[kCount] = combine_loop<Spec, E, Shape::kTree, kCount>;
  if constexpr (Spec::kOrdered && kCount >= 4 && sizeof(typename Spec::Element) != sizeof(typename Spec::Partial)) {
    kernels.tree_to_partials[kCount] = combine_loop<Spec, Partials<Spec>, Shape::kTree, kCount>;
  } else if constexpr (kLast == kMaxLoopOperands && kCount >= 4) {
    kernels.tree_to_partials[kCount] = kernels.tree[kCount];
  }
  if constexpr (kCount < kLast) add_loops<Spec, kLast, kCount + 1>(kernels);
}

// Hot: sums, which get loops over up to eight operands; two are enough for the other operations.
template <class Spec, bool kHot>
constexpr BlockKernels make_block_kernels() {
  using E = Elements<Spec>;
  using P = Partials<Spec>;
  constexpr bool kSame = sizeof(typename Spec::Element) == sizeof(typename Spec::Partial);
  BlockKernels kernels{.element_bytes = sizeof(typename Spec::Element),
                       .partial_bytes = sizeof(typename Spec::Partial),
                       .load_element = accumulate_loop<Spec, E, true>,
                       .load_partial = accumulate_loop<Spec, P, true>,
                       .accumulate_element = accumulate_loop<Spec, E, false>,
                       .accumulate_partial = accumulate_loop<Spec, P, false>,
                       .round = round_loop<Spec>};
  add_loops<Spec, kHot ? kMaxLoopOperands : 2>(kernels);
  if constexpr (kSame) {
    kernels.load_partial = kernels.load_element;
    kernels.accumulate_partial = kernels.accumulate_element;
    kernels.round = kernels.fold[1];
  }
  if constexpr (kHot) {
    kernels.fold8_to_partials = kSame ? kernels.fold[8] : combine_loop<Spec, P, Shape::kFold, 8>;
    kernels.accumulate8 = accumulate8_loop<Spec>;
  }
  return kernels;
}

template <class Spec, bool kHot>
void reduce(const ReduceArguments& arguments) {
  static constexpr BlockKernels kKernels = make_block_kernels<Spec, kHot>();
  reduce_blocks(kKernels, arguments);
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // GIMBAL_KERNELS_REDUCE_INL_H_
