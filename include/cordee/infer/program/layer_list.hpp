// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of a network type as a list of values, in an order in which they can run: a batch norm
// and a ReLU belong to the convolution before them, and the shortcut of a residual block is
// added by the block's last convolution. A batch norm that is not folded is a layer, to which the
// ReLU belongs and which adds the shortcut.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/infer/program/layer_walk.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

struct classifier_problem {
  int features = 0, classes = 0;
};
/// A batch norm that is not folded.
struct norm_problem {
  extent in;
};

/// Layer 0 reads the image: its input is -1.
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
  struct value {
    int layer = -1;   // -1: the image
    int changes = 0;  // batch norm and ReLU that belonged to it
  };

  /// `fold`: whether batch norms belong to convolutions.
  explicit layer_list(bool fold = true) : fold_(fold) {}

  [[nodiscard]] const std::vector<listed_layer>& layers() const { return layers_; }
  [[nodiscard]] std::vector<listed_layer>& layers() { return layers_; }

  value convolution(const convolution_problem& p, const layer_tensors& t, value x) {
    return push({.problem = p,
                 .input = read(x),
                 .name = t.name,
                 .weights = t.trainable.data(),
                 .range = t.statistics.empty() ? nullptr : t.statistics.data()});
  }
  value batch_norm(const extent& in, const layer_tensors& t, value x) {
    const listed_layer& layer = last_convolution(
        x,
        "infer: a batch norm that does not directly follow a convolution has no form in integers");
    expects(layer.residual < 0,
            "infer: a batch norm that follows a residual block has no form in integers");
    expects(layer.norm == nullptr, "infer: two batch norms in a row have no form in integers");
    value norm = change(x);
    if (!fold_) norm = push({.problem = norm_problem{in}, .input = x.layer, .name = t.name});
    layers_.back().norm = t.trainable.data();
    layers_.back().statistics = t.statistics.data();
    return norm;
  }
  value relu(const extent&, value x) {
    last_convolution(
        x, "infer: a ReLU that does not directly follow a convolution has no form in integers")
        .relu = true;
    return change(x);
  }
  value max_pool(const ops::max_pool_problem& p, value x) {
    return push({.problem = p, .input = read(x)});
  }
  value subsample_pad(const ops::subsample_problem& p, value x) {
    return push({.problem = p, .input = read(x)});
  }
  value global_average_pool(const extent& in, value x) {
    return push({.problem = mean_problem{in}, .input = read(x)});
  }
  value linear(const extent& in, const layer_tensors& t, value x) {
    const segment* const weights = t.trainable.data();
    return push({.problem = classifier_problem{in.channels, weights->shape[0]},
                 .input = read(x),
                 .name = t.name,
                 .weights = weights,
                 .bias = weights + 1});
  }
  /// Moves the last layer of a residual block's body behind the shortcut, which it adds.
  value add(const extent&, value z, value shortcut_value) {
    const int body = read(z), shortcut = read(shortcut_value);
    expects(shortcut >= 0, first_layer);
    listed_layer last = layers_[static_cast<std::size_t>(body)];
    layers_.erase(layers_.begin() + body);
    changes_.erase(changes_.begin() + body);
    for (std::size_t i = static_cast<std::size_t>(body); i < layers_.size(); ++i)
      for (int* const read : {&layers_[i].input, &layers_[i].residual})
        if (*read > body) --*read;
    last.residual = shortcut > body ? shortcut - 1 : shortcut;
    return push(last);
  }

 private:
  static constexpr const char* first_layer =
      "infer: a network begins with a convolution, not with a residual block";

  value push(const listed_layer& layer) {
    expects(layer.input >= 0 || layers_.empty(), first_layer);  // one layer reads the image
    layers_.push_back(layer);
    changes_.push_back(0);
    return {static_cast<int>(layers_.size()) - 1};
  }
  /// The number of the layer that is read.
  [[nodiscard]] int read(value x) const {
    expects(x.layer < 0 || x.changes == changes_[static_cast<std::size_t>(x.layer)],
            "infer: an output that is read before its batch norm or ReLU as well, as by the "
            "shortcut of a residual block that begins with one, has no form in integers");
    return x.layer;
  }
  /// What the value is with another batch norm or ReLU.
  value change(value x) { return {x.layer, ++changes_[static_cast<std::size_t>(x.layer)]}; }
  /// The convolution, or its batch norm, that is the last layer of all, without a ReLU.
  listed_layer& last_convolution(value x, const char* message) {
    const bool fits = x.layer >= 0 && x.layer + 1 == static_cast<int>(layers_.size()) &&
                      (layers_.back().as<convolution_problem>() != nullptr ||
                       layers_.back().as<norm_problem>() != nullptr) &&
                      !layers_.back().relu;
    expects(fits, message);
    return layers_.back();
  }

  bool fold_;
  std::vector<listed_layer> layers_;
  std::vector<int> changes_;  // of each layer
};

template <class Root, class P, class D, class Engine, extent Input, int Classes, class L>
layer_list list_layers(const network<Root, P, D, Engine, Input, Classes, L>*, bool fold = true) {
  layer_list list(fold);
  layer_walk<layer_list>(list, network<Root, P, D, Engine, Input, Classes, L>::segments())
      .template walk<Root>(Input, {});
  return list;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
