#include "gradsync/codec_reducer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gradsync/calls.h"

namespace gimbal::gradsync {
namespace {

size_t units_of(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

// What is not finite is not carried: the step that had it is lost, the next one is not.
void forget_infinite(std::span<float> values) {
  for (float& value : values) value = std::abs(value) <= std::numeric_limits<float>::max() ? value : 0.0F;
}

}  // namespace

CodecReducer::CodecReducer(gimbal_comm_t comm, const gimbal_codec_t& codec, const StateOwner& owner,
                           std::span<const Parameter> parameters, const Layout& layout)
    : comm_(comm),
      codec_(codec),
      ranks_(static_cast<size_t>(owner.size)),
      parameters_(parameters),
      layout_(layout),
      error_(layout.element_count) {
  tensors_.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    const gimbal_codec_tensor_t tensor = {parameter.name.c_str(), parameter.rows, parameter.count / parameter.rows, owner.rank,
                                          owner.size};
    const bool offered = takes(parameter.dtype) && parameter.count != 0;
    tensors_.emplace_back(offered ? codec_.open(&codec_, &tensor) : nullptr, Close{codec_.close});
  }
}

Status CodecReducer::reduce(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder) {
  int64_t moment = recorder.now();
  const auto record = [&](Activity activity) { moment = recorder.add_until_now(track_of(bucket), activity, moment); };
  auto* const gradients = reinterpret_cast<float*>(memory);
  const auto gradient_of = [&](size_t parameter) { return gradients + (layout_.elements[parameter] - bucket.element); };
  const auto factor = static_cast<float>(share.mine / share.total);
  std::vector<size_t> coded;
  std::vector<size_t> refused;
  for (const size_t parameter : bucket.parameters) {
    (tensors_[parameter] == nullptr ? refused : coded).push_back(parameter);
    const std::span<float> values = error_of(parameter);
    const float* const gradient = gradient_of(parameter);
    for (size_t i = 0; i < values.size(); ++i) values[i] += gradient[i] * factor;
  }
  record(Activity::kEncode);
  RETURN_IF_ERROR(reduce_refused(refused, bucket, gradients));
  record(Activity::kReduce);
  if (coded.empty()) return {};
  std::vector<size_t> begins(coded.size() + 1);  // of the messages, in units
  for (int32_t round = 0; round < codec_.rounds; ++round) {
    for (size_t i = 0; i < coded.size(); ++i) {
      begins[i + 1] = begins[i] + units_of(codec_.message_bytes(tensors_[coded[i]].get(), round));
    }
    message_.assign(begins.back(), 0);
    for (size_t i = 0; i < coded.size(); ++i) {
      codec_.encode(tensors_[coded[i]].get(), round, error_of(coded[i]).data(), message_.data() + begins[i]);
      if (round + 1 == codec_.rounds) forget_infinite(error_of(coded[i]));
    }
    record(Activity::kEncode);
    std::span<const std::byte> received;
    size_t stride = 0;
    RETURN_IF_ERROR(exchange(begins.back() * sizeof(uint64_t), received, stride));
    record(codec_.exchange == GIMBAL_CODEC_SUM ? Activity::kReduce : Activity::kGather);
    for (size_t i = 0; i < coded.size(); ++i) {
      codec_.decode(tensors_[coded[i]].get(), round, received.data() + begins[i] * sizeof(uint64_t), stride,
                    gradient_of(coded[i]));
    }
    record(Activity::kDecode);
  }
  return {};
}

Status CodecReducer::reduce_refused(std::span<const size_t> parameters, const Bucket& bucket, float* memory) {
  refused_.clear();
  for (const size_t parameter : parameters) {
    const std::span<float> values = error_of(parameter);
    refused_.insert(refused_.end(), values.begin(), values.end());
    std::ranges::fill(values, 0.0F);  // all of it is sent
  }
  if (refused_.empty()) return {};
  RETURN_IF_ERROR(complete([&](gimbal_request_t* request) {
    return gimbal_all_reduce_start(refused_.data(), refused_.data(), refused_.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm_,
                                   nullptr, request);
  }));
  sent_bytes_ += 2 * (ranks_ - 1) * refused_.size() * sizeof(float) / ranks_;
  const float* from = refused_.data();
  for (const size_t parameter : parameters) {
    const size_t count = parameters_[parameter].count;
    std::copy_n(from, count, memory + (layout_.elements[parameter] - bucket.element));
    from += count;
  }
  return {};
}

Status CodecReducer::exchange(size_t bytes, std::span<const std::byte>& received, size_t& stride) {
  stride = bytes;
  if (codec_.exchange == GIMBAL_CODEC_SUM) {
    sent_bytes_ += 2 * (ranks_ - 1) * bytes / ranks_;
    received = std::as_bytes(std::span(message_));
    return complete([&](gimbal_request_t* request) {
      return gimbal_all_reduce_start(message_.data(), message_.data(), bytes / sizeof(float), GIMBAL_FLOAT32, GIMBAL_SUM, comm_,
                                     nullptr, request);
    });
  }
  sent_bytes_ += (ranks_ - 1) * bytes;
  gathered_.resize(message_.size() * ranks_);
  received = std::as_bytes(std::span(gathered_));
  return complete([&](gimbal_request_t* request) {
    return gimbal_all_gather_start(message_.data(), gathered_.data(), bytes, GIMBAL_UINT8, comm_, nullptr, request);
  });
}

std::vector<StateSection> CodecReducer::state() {
  std::vector<StateSection> sections;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (tensors_[i] == nullptr) continue;
    sections.push_back({parameters_[i].name, StateKind::kError, std::as_writable_bytes(error_of(i))});
    if (codec_.memory == nullptr) continue;
    size_t bytes = 0;
    auto* const memory = static_cast<std::byte*>(codec_.memory(tensors_[i].get(), &bytes));
    sections.push_back({parameters_[i].name, StateKind::kCodec, {memory, bytes}});
  }
  return sections;
}

}  // namespace gimbal::gradsync
