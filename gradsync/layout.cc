#include "gradsync/layout.h"

#include <algorithm>

namespace gimbal::gradsync {
namespace {

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Cuts one region, the parameters of one type in the order given, which begins at layout.bytes.
class RegionCutter {
 public:
  RegionCutter(Layout& layout, DType dtype, size_t first_limit, size_t limit, const Placement& placement)
      : layout_(layout),
        dtype_(dtype),
        unit_(std::max(kGradientAlignment, placement.block_elements * dtype_size(dtype))),
        split_(placement.split),
        limit_(std::max(round_up(first_limit, unit_), unit_)),
        next_limit_(std::max(limit / unit_ * unit_, unit_)) {}

  void add(size_t parameter, size_t bytes) {
    if (open_ && open_bytes_ + bytes > limit_) close();
    layout_.offsets[parameter] = layout_.bytes;
    layout_.elements[parameter] = layout_.element_count;
    size_t left = round_up(bytes, unit_);
    while (left > 0) {
      if (!open_) begin();
      const size_t taken = split_ ? std::min(left, limit_ - open_bytes_) : left;
      layout_.buckets.back().parameters.push_back(parameter);
      open_bytes_ += taken;
      layout_.bytes += taken;
      layout_.element_count += taken / dtype_size(dtype_);
      left -= taken;
      if (open_bytes_ >= limit_) close();
    }
  }

  void close() {
    if (!open_) return;
    layout_.buckets.back().count = open_bytes_ / dtype_size(dtype_);
    open_ = false;
    limit_ = next_limit_;
  }

 private:
  void begin() {
    layout_.buckets.push_back({dtype_, layout_.bytes, layout_.element_count, 0, {}, 0});
    open_ = true;
    open_bytes_ = 0;
  }

  Layout& layout_;
  DType dtype_;
  size_t unit_;
  bool split_;
  size_t limit_;
  size_t next_limit_;
  bool open_ = false;
  size_t open_bytes_ = 0;
};

void index_buckets(Layout& layout) {
  for (auto& held : layout.held) held.clear();
  for (size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) {
    for (const size_t parameter : layout.buckets[bucket].parameters) layout.held[parameter].push_back(bucket);
  }
}

}  // namespace

Layout lay_out(std::span<const Parameter> parameters, size_t first_bucket_bytes, size_t bucket_bytes,
               const Placement& placement) {
  Layout layout;
  layout.offsets.resize(parameters.size());
  layout.elements.resize(parameters.size());
  layout.held.resize(parameters.size());
  std::vector<DType> types;  // in the order in which the backward pass meets them
  for (size_t i = parameters.size(); i-- > 0;) {
    if (std::find(types.begin(), types.end(), parameters[i].dtype) == types.end()) types.push_back(parameters[i].dtype);
  }
  for (const DType type : types) {
    RegionCutter cutter(layout, type, type == types.front() ? first_bucket_bytes : bucket_bytes, bucket_bytes, placement);
    for (size_t i = parameters.size(); i-- > 0;) {
      if (parameters[i].dtype == type) cutter.add(i, parameters[i].bytes());
    }
    cutter.close();
  }
  // A bucket is complete with the parameter of it that stands first in the forward pass.
  std::stable_sort(layout.buckets.begin(), layout.buckets.end(), [](const Bucket& a, const Bucket& b) {
    return *std::min_element(a.parameters.begin(), a.parameters.end()) >
           *std::min_element(b.parameters.begin(), b.parameters.end());
  });
  for (size_t i = 0; i < layout.buckets.size(); ++i) layout.buckets[i].id = i;
  index_buckets(layout);
  return layout;
}

void reorder(Layout& layout, std::span<const size_t> order) {
  std::vector<Bucket> buckets;
  buckets.reserve(order.size());
  for (const size_t index : order) buckets.push_back(std::move(layout.buckets[index]));
  layout.buckets = std::move(buckets);
  index_buckets(layout);
}

}  // namespace gimbal::gradsync
