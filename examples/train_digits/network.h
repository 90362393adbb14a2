// A fully connected network (ReLU between layers, softmax cross-entropy at the end) with a hand-written backward pass.
//
// Parameters are one flat vector: per layer the weights [inputs x outputs], then the biases. A gradient has the same shape, so
// a layer's gradient is one contiguous bucket.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "dataset.h"
#include "matrix.h"

namespace digits {

struct LayerShape {
  size_t inputs;
  size_t outputs;
  size_t offset;  // of the first weight in the flat vector

  [[nodiscard]] size_t parameter_count() const { return (inputs + 1) * outputs; }
  [[nodiscard]] size_t bias_offset() const { return offset + inputs * outputs; }
};

struct Evaluation {
  double loss_sum = 0;
  int64_t correct = 0;
};

template <typename T>
class Network {
 public:
  // Called with a layer's index when its gradient is complete, last layer first, while the layers before it are still to come.
  using LayerReady = std::function<void(size_t layer)>;

  Network(std::span<const size_t> widths, uint64_t seed) {
    size_t offset = 0;
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers_.push_back({widths[i], widths[i + 1], offset});
      offset += layers_.back().parameter_count();
    }
    parameters_.assign(offset, T{0});
    initialize(seed);
  }

  [[nodiscard]] std::span<const LayerShape> layers() const { return layers_; }
  [[nodiscard]] std::span<T> parameters() { return parameters_; }
  [[nodiscard]] std::span<const T> parameters() const { return parameters_; }

  // Writes the gradient of the batch's mean loss and returns the batch's summed loss. An empty batch has gradient 0.
  double compute_gradient(const Batch<T>& batch, std::span<T> gradient, const LayerReady& ready) {
    forward(batch);
    Evaluation evaluation;
    std::vector<T> delta = loss_gradient(batch, evaluation);
    std::fill(gradient.begin(), gradient.end(), T{0});
    for (size_t i = layers_.size(); i-- > 0;) {
      const LayerShape& layer = layers_[i];
      const T* inputs = layer_inputs(batch, i);
      multiply_add<T>(layer.inputs, batch.size(), layer.outputs, {inputs, 1, layer.inputs}, delta.data(),
                      gradient.data() + layer.offset);
      add_rows(delta, gradient.subspan(layer.bias_offset(), layer.outputs));
      ready(i);
      if (i > 0) delta = back_through(i, delta, inputs, batch.size());
    }
    return evaluation.loss_sum;
  }

  Evaluation evaluate(const Batch<T>& batch) {
    forward(batch);
    Evaluation evaluation;
    loss_gradient(batch, evaluation);
    return evaluation;
  }

 private:
  // He et al. 2015: variance 2 / inputs keeps activations of ReLU layers at one scale. The uniform numbers are made from the
  // generator's bits because std::uniform_real_distribution differs between standard libraries.
  void initialize(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (const LayerShape& layer : layers_) {
      const double bound = std::sqrt(6.0 / static_cast<double>(layer.inputs));
      for (size_t i = layer.offset; i < layer.bias_offset(); ++i) {
        const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
        parameters_[i] = static_cast<T>((2 * unit - 1) * bound);
      }
    }
  }

  const T* layer_inputs(const Batch<T>& batch, size_t layer) const {
    return layer == 0 ? batch.inputs.data() : activations_[layer - 1].data();
  }

  // activations_[i] = output of layer i; the last one holds logits.
  void forward(const Batch<T>& batch) {
    activations_.resize(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerShape& layer = layers_[i];
      std::vector<T>& output = activations_[i];
      output.resize(batch.size() * layer.outputs);
      const T* bias = parameters_.data() + layer.bias_offset();
      for (size_t row = 0; row < batch.size(); ++row) std::copy_n(bias, layer.outputs, output.data() + row * layer.outputs);
      multiply_add<T>(batch.size(), layer.inputs, layer.outputs, {layer_inputs(batch, i), layer.inputs, 1},
                      parameters_.data() + layer.offset, output.data());
      if (i + 1 < layers_.size()) {
        for (T& value : output) value = std::max(value, T{0});
      }
    }
  }

  // The gradient of the mean loss by the logits: (softmax - one_hot) / batch size.
  std::vector<T> loss_gradient(const Batch<T>& batch, Evaluation& evaluation) const {
    std::vector<T> delta = activations_.back();
    for (size_t row = 0; row < batch.size(); ++row) {
      const std::span<T> scores(delta.data() + row * kClasses, kClasses);
      const size_t label = batch.labels[row];
      const auto best = std::max_element(scores.begin(), scores.end());
      evaluation.correct += static_cast<size_t>(best - scores.begin()) == label;
      const T maximum = *best;
      const T label_score = scores[label] - maximum;
      T sum = 0;
      for (T& score : scores) sum += score = std::exp(score - maximum);
      evaluation.loss_sum += static_cast<double>(std::log(sum) - label_score);
      for (T& score : scores) score /= sum * static_cast<T>(batch.size());
      scores[label] -= T{1} / static_cast<T>(batch.size());
    }
    return delta;
  }

  static void add_rows(const std::vector<T>& delta, std::span<T> sum) {
    for (size_t row = 0; row * sum.size() < delta.size(); ++row) {
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += delta[row * sum.size() + j];
    }
  }

  // The gradient by the inputs of `layer`, which are the previous layer's ReLU outputs.
  std::vector<T> back_through(size_t index, const std::vector<T>& delta, const T* inputs, size_t rows) {
    const LayerShape& layer = layers_[index];
    transpose(layer.inputs, layer.outputs, parameters_.data() + layer.offset, transposed_);
    std::vector<T> result(rows * layer.inputs, T{0});
    multiply_add<T>(rows, layer.outputs, layer.inputs, {delta.data(), layer.outputs, 1}, transposed_.data(), result.data());
    for (size_t i = 0; i < result.size(); ++i) {
      if (inputs[i] <= 0) result[i] = 0;
    }
    return result;
  }

  std::vector<LayerShape> layers_;
  std::vector<T> parameters_;
  std::vector<std::vector<T>> activations_;
  std::vector<T> transposed_;
};

}  // namespace digits
