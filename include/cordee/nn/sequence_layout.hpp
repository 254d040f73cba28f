// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of a sequence, or repeated ones, while they are bound (nn/sequential.hpp): what is
// noted of each, and the activations before it. No templates, so that it is compiled once.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// The activations before each of N layers, and before the end.
template <std::size_t N>
struct sequence_bounds {
  buffer_sizes before[N + 1];
};

/// What a sequence notes of one of its layers.
struct noted_layer {
  bool restores_output, forgets_input, forgets_output;
};

/// The layers of a sequence while they are bound.
class sequence_layout {
 public:
  /// `numbers`: of a sample before each layer, and at the end, each of `width` bytes; `bounds`: the
  /// activations there.
  [[gnu::cold, gnu::noinline]] sequence_layout(layout_builder& layout,
                                               std::span<const noted_layer> layers,
                                               const std::size_t* numbers, std::size_t width,
                                               bool restores_outputs, buffer_sizes* bounds)
      : layout_(layout),
        layers_(layers),
        numbers_(numbers),
        width_(width),
        bounds_(bounds),
        output_(std::exchange(layout.output_index, own_activation)),
        restores_outputs_(restores_outputs) {
    for (std::size_t i = 0; i <= layers.size(); ++i) layout.note_activation_size(numbers[i]);
  }
  /// For the layer that is bound next, or at the end: those before it are bound.
  [[gnu::cold, gnu::noinline]] layout_builder& next() {
    if (next_ > 0) {
      const std::size_t bound = next_ - 1, in = width_ * numbers_[bound],
                        out = width_ * numbers_[next_];
      layout_.note_gradients(parts_, in + out, bound > 0 && is_temporary(bound - 1) ? in : 0,
                             layers_[bound].forgets_output ? out : 0);
    }
    bounds_[next_] = layout_.position();
    parts_ = layout_.pass.parts.size();
    if (next_ < layers_.size())
      layout_.output_index = next_ + 1 == layers_.size() ? output_
                             : is_temporary(next_)       ? temporary_activation
                                                         : own_activation;
    ++next_;
    return layout_;
  }

 private:
  // Whether the next layer alone reads this one's output, or computes it again.
  [[nodiscard]] bool is_temporary(std::size_t layer) const {
    return restores_outputs_ && layers_[layer].restores_output && layers_[layer + 1].forgets_input;
  }

  layout_builder& layout_;
  std::span<const noted_layer> layers_;
  const std::size_t* numbers_;
  std::size_t width_;
  buffer_sizes* bounds_;
  std::size_t output_;  // of the sequence, which the last layer writes
  bool restores_outputs_;
  std::size_t next_ = 0, parts_ = 0;
};

/// Where the activations of repeated layers are.
struct repeat_bounds {
  buffer_sizes begin{}, each{};  // those before the first, and those of each

  /// The activations before the end of layer i.
  [[nodiscard]] buffer_sizes end(std::size_t i) const {
    return {begin.bytes + (i + 1) * each.bytes, begin.count + (i + 1) * each.count};
  }
};
/// Repeated layers while they are bound.
class repeat_layout {
 public:
  /// `bytes`: of a sample in the input and the output of each.
  [[gnu::cold, gnu::noinline]] repeat_layout(layout_builder& layout, std::size_t bytes,
                                             repeat_bounds& bounds)
      : layout_(layout), bytes_(bytes), bounds_(bounds) {
    bounds.begin = layout.position();
  }
  /// For the layer that is bound next, or at the end: those before it are bound.
  [[gnu::cold, gnu::noinline]] layout_builder& next() {
    if (next_ > 0) layout_.note_gradients(parts_, bytes_);
    if (next_ == 1)
      bounds_.each = {layout_.position().bytes - bounds_.begin.bytes,
                      layout_.position().count - bounds_.begin.count};
    parts_ = layout_.pass.parts.size();
    ++next_;
    return layout_;
  }

 private:
  layout_builder& layout_;
  std::size_t bytes_;
  repeat_bounds& bounds_;
  std::size_t next_ = 0, parts_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
