// Buckets that travel as a codec of the C API encodes them, with what it has not sent carried to the next step. Tensors that
// the codec refuses are added as they are, those of a bucket together.
#pragma once

#include <memory>

#include "gimbal/gimbal.h"
#include "gradsync/bucket_reducer.h"

namespace gimbal::gradsync {

class CodecReducer final : public BucketReducer {
 public:
  // The parameters and the layout, whose buckets have whole parameters, must outlive it.
  CodecReducer(gimbal_comm_t comm, const gimbal_codec_t& codec, const StateOwner& owner, std::span<const Parameter> parameters,
               const Layout& layout);

  [[nodiscard]] bool takes(DType dtype) const override { return dtype == DType::kFloat32; }
  Status reduce(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder) override;
  std::vector<StateSection> state() override;
  [[nodiscard]] uint64_t sent_bytes() const override { return sent_bytes_; }
  void abort() override {}  // has no communicator of its own

 private:
  struct Close {
    void (*close)(void* state);
    void operator()(void* state) const { close(state); }
  };
  using Tensor = std::unique_ptr<void, Close>;  // null: refused

  Status reduce_refused(std::span<const size_t> parameters, const Bucket& bucket, float* memory);
  Status exchange(size_t bytes, std::span<const std::byte>& received, size_t& stride);
  [[nodiscard]] std::span<float> error_of(size_t parameter) {
    return std::span(error_).subspan(layout_.elements[parameter], parameters_[parameter].count);
  }

  gimbal_comm_t comm_;
  gimbal_codec_t codec_;
  size_t ranks_;
  std::span<const Parameter> parameters_;
  const Layout& layout_;
  std::vector<Tensor> tensors_;  // by parameter
  std::vector<float> error_;     // by element of the layout
  // Of a round, in units that are aligned for any message.
  std::vector<uint64_t> message_;
  std::vector<uint64_t> gathered_;
  std::vector<float> refused_;
  uint64_t sent_bytes_ = 0;
};

}  // namespace gimbal::gradsync
