// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of a network type as a list of values, in an order in which they can run: a batch norm
// and a rectifier belong to the convolution before them, and the shortcut of a residual block is
// added by the block's last convolution. A batch norm that is not folded is a layer, to which the
// rectifier belongs and which adds the shortcut.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/infer/integer_layers.hpp>
#include <cordee/infer/layer_walk.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

struct classifier_problem {
  int features = 0, classes = 0;
};
/// Of a batch norm that is not folded.
struct norm_problem {
  extent in;
};

/// What reads the image is number 0's input, -1.
struct listed_layer {
  std::variant<convolution_problem, ops::max_pool_problem, ops::subsample_problem, mean_problem,
               classifier_problem, norm_problem>
      problem;
  int input = -1, residual = -1;  // numbers of the layers whose outputs are read; -1: none
  bool relu = false;
  std::string_view name{};  // of a layer with parameters
  // The tensors of the layer in the network's table; null where it has none.
  const segment *weights = nullptr, *bias = nullptr;
  const segment* range = nullptr;       // the first of two
  const segment* norm = nullptr;        // gamma, followed by beta
  const segment* statistics = nullptr;  // mean, followed by variance

  template <class P>
  [[nodiscard]] const P* as() const {
    return std::get_if<P>(&problem);
  }
};

/// Lists the layers of a network that layer_walk visits; what flows between them are the numbers of
/// their last layers. Layers without a range are those of a network that is not in int8.
class layer_list {
 public:
  using value = int;

  /// `fold`: whether batch norms belong to convolutions.
  explicit layer_list(bool fold = true) : fold_(fold) {}

  [[nodiscard]] const std::vector<listed_layer>& layers() const { return layers_; }
  [[nodiscard]] std::vector<listed_layer>& layers() { return layers_; }

  int convolution(const convolution_problem& p, const layer_tensors& t, int x) {
    return push({.problem = p,
                 .input = x,
                 .name = t.name,
                 .weights = t.trainable.data(),
                 .range = t.statistics.empty() ? nullptr : t.statistics.data()});
  }
  int batch_norm(const extent& in, const layer_tensors& t, int x) {
    const listed_layer& layer = last_convolution(
        x,
        "infer: a batch norm that does not directly follow a convolution has no form in integers");
    expects(layer.residual < 0,
            "infer: a batch norm that follows a residual block has no form in integers");
    expects(layer.norm == nullptr, "infer: two batch norms in a row have no form in integers");
    const int norm = fold_ ? x : push({.problem = norm_problem{in}, .input = x, .name = t.name});
    layers_.back().norm = t.trainable.data();
    layers_.back().statistics = t.statistics.data();
    return norm;
  }
  int relu(const extent&, int x) {
    last_convolution(
        x, "infer: a rectifier that does not directly follow a convolution has no form in integers")
        .relu = true;
    return x;
  }
  int max_pool(const ops::max_pool_problem& p, int x) { return push({.problem = p, .input = x}); }
  int subsample_pad(const ops::subsample_problem& p, int x) {
    return push({.problem = p, .input = x});
  }
  int global_average_pool(const extent& in, int x) {
    return push({.problem = mean_problem{in}, .input = x});
  }
  int linear(const extent& in, const layer_tensors& t, int x) {
    const segment* const weights = t.trainable.data();
    return push({.problem = classifier_problem{in.channels, weights->shape[0]},
                 .input = x,
                 .name = t.name,
                 .weights = weights,
                 .bias = weights + 1});
  }
  /// Moves the last layer of a residual block's body behind the shortcut, which it adds.
  int add(const extent&, int body, int shortcut) {
    expects(shortcut >= 0, first_layer);
    listed_layer last = layers_[static_cast<std::size_t>(body)];
    layers_.erase(layers_.begin() + body);
    for (std::size_t i = static_cast<std::size_t>(body); i < layers_.size(); ++i)
      for (int* const read : {&layers_[i].input, &layers_[i].residual})
        if (*read > body) --*read;
    last.residual = shortcut > body ? shortcut - 1 : shortcut;
    return push(last);
  }

 private:
  static constexpr const char* first_layer =
      "infer: a network begins with a convolution, not with a residual block";

  int push(const listed_layer& layer) {
    expects(layer.input >= 0 || layers_.empty(), first_layer);  // one layer reads the image
    layers_.push_back(layer);
    return static_cast<int>(layers_.size()) - 1;
  }
  /// The convolution, or its batch norm, that is the last layer of all, without a rectifier.
  listed_layer& last_convolution(int x, const char* message) {
    const bool fits = x >= 0 && x + 1 == static_cast<int>(layers_.size()) &&
                      (layers_.back().as<convolution_problem>() != nullptr ||
                       layers_.back().as<norm_problem>() != nullptr) &&
                      !layers_.back().relu;
    expects(fits, message);
    return layers_.back();
  }

  bool fold_;
  std::vector<listed_layer> layers_;
};

template <class Root, class P, class D, class Engine, extent Input, int Classes, class L>
layer_list list_layers(const network<Root, P, D, Engine, Input, Classes, L>*, bool fold = true) {
  layer_list list(fold);
  layer_walk<layer_list>(list, network<Root, P, D, Engine, Input, Classes, L>::segments())
      .template walk<Root>(Input, -1);
  return list;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
