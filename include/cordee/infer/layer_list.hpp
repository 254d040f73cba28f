// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of a network type as a list of values, in an order in which they can run: a batch norm
// and a rectifier belong to the convolution before them, and the shortcut of a residual block is
// added by the block's last convolution.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/infer/integer_layers.hpp>
#include <cordee/nn/dropout.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

struct classifier_problem {
  int features = 0, classes = 0;
};

/// What reads the image is number 0's input, -1.
struct listed_layer {
  std::variant<convolution_problem, ops::max_pool_problem, ops::subsample_problem, mean_problem,
               classifier_problem>
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

/// Lists the layers of a network. `ranges`: whether convolutions have ranges of their inputs.
class layer_list {
 public:
  layer_list(std::span<const segment> table, extent image, bool ranges)
      : table_(table), extent_(image), ranges_(ranges), statistic_(core::count_trainable(table)) {}

  template <class L>
  void add_layer() {
    static_assert(
        requires(layer_list& self, const L* layer) { self.add(layer); },
        "infer: this layer has no form in integers: a network of convolution, batch_norm, relu, "
        "residual, max_pool, global_average_pool, dropout and linear has");
    add(static_cast<const L*>(nullptr));
  }
  [[nodiscard]] const std::vector<listed_layer>& layers() const { return layers_; }
  [[nodiscard]] std::vector<listed_layer>& layers() { return layers_; }

  template <Layer... Layers>
  void add(const sequential<Layers...>*) {
    (add_layer<Layers>(), ...);
  }
  template <int Times, Layer L>
  void add(const repeat<Times, L>*) {
    for (int i = 0; i < Times; ++i) add_layer<L>();
  }
  template <int Filters, int Window, int Stride>
  void add(const convolution<Filters, Window, Stride>*) {
    add_convolution(convolution<Filters, Window, Stride>::problem(extent_));
  }
  template <class Activation, batch_norm_options With>
  void add(const batch_norm<Activation, With>*) {
    add_norm(std::is_same_v<Activation, cordee::relu>);
  }
  void add(const relu*) { rectify(); }
  void add(const identity*) {}
  void add(const dropout*) {}
  template <int Window, int Stride, int Padding>
  void add(const max_pool<Window, Stride, Padding>*) {
    const auto p = max_pool<Window, Stride, Padding>::problem(extent_);
    push({.problem = p}, p.out());
  }
  template <int Channels, int Stride>
  void add(const subsample_pad<Channels, Stride>*) {
    const auto p = subsample_pad<Channels, Stride>::problem(extent_);
    push({.problem = p}, p.out);
  }
  void add(const global_average_pool*) {
    push({.problem = mean_problem{extent_}}, {extent_.channels, 1, 1});
  }
  template <int Classes>
  void add(const linear<Classes>*) {
    const segment* const weights = next(2);
    push({.problem = classifier_problem{extent_.channels, Classes},
          .name = name_of(*weights),
          .weights = weights,
          .bias = weights + 1},
         {Classes, 1, 1});
  }
  template <Layer Body, Layer Norm, Layer Shortcut>
  void add(const residual<Body, Norm, Shortcut>*) {
    const int in = current_;
    const extent image = extent_;
    add_layer<Body>();
    add_layer<Norm>();
    const int body = current_;
    current_ = in;
    extent_ = image;
    add_layer<Shortcut>();
    end_block(in, body);
  }

 private:
  static std::string_view name_of(const segment& weights) {
    return weights.name.substr(0, weights.name.rfind('.'));
  }
  const segment* next(std::size_t count) {
    const segment* const first = &table_[segment_];
    segment_ += count;
    return first;
  }
  const segment* next_statistics() {
    const segment* const first = &table_[statistic_];
    statistic_ += 2;
    return first;
  }
  void push(listed_layer layer, const extent& out) {
    layer.input = current_;
    current_ = static_cast<int>(layers_.size());
    layers_.push_back(layer);
    extent_ = out;
  }
  void add_convolution(const convolution_problem& p) {
    const segment* const weights = next(1);
    push({.problem = p,
          .name = name_of(*weights),
          .weights = weights,
          .range = ranges_ ? next_statistics() : nullptr},
         p.out());
  }
  /// The convolution that is the last layer of all, without a rectifier.
  listed_layer& last_convolution(const char* message) {
    const bool fits = current_ >= 0 && current_ + 1 == static_cast<int>(layers_.size()) &&
                      layers_.back().as<convolution_problem>() != nullptr && !layers_.back().relu &&
                      layers_.back().residual < 0;
    expects(fits, message);
    return layers_.back();
  }
  void add_norm(bool rectified) {
    listed_layer& layer = last_convolution(
        "infer: a batch norm that does not directly follow a convolution has no form in integers");
    expects(layer.norm == nullptr, "infer: two batch norms in a row have no form in integers");
    layer.norm = next(2);
    layer.statistics = next_statistics();
    layer.relu = rectified;
  }
  void rectify() {
    last_convolution(
        "infer: a rectifier that does not directly follow a convolution has no form in integers")
        .relu = true;
  }

  /// Moves the last convolution of the body behind the shortcut, which it adds.
  void end_block(int in, int body) {
    listed_layer last = layers_[static_cast<std::size_t>(body)];
    int shortcut = current_;
    expects(in >= 0, "infer: a network begins with a convolution, not with a residual block");
    layers_.erase(layers_.begin() + body);
    for (std::size_t i = static_cast<std::size_t>(body); i < layers_.size(); ++i)
      if (layers_[i].input > body) --layers_[i].input;
    if (shortcut > body) --shortcut;
    last.residual = shortcut;
    last.relu = true;
    current_ = static_cast<int>(layers_.size());
    layers_.push_back(last);
  }

  std::span<const segment> table_;
  extent extent_;
  bool ranges_;
  std::size_t segment_ = 0, statistic_;
  int current_ = -1;
  std::vector<listed_layer> layers_;
};

template <class Root, Precision P, class D, class Engine, extent Input, int Classes, class L>
layer_list list_layers(const network<Root, P, D, Engine, Input, Classes, L>*) {
  using net = network<Root, P, D, Engine, Input, Classes, L>;
  layer_list list(net::segments(), Input, Quantized<P>);
  list.add_layer<Root>();
  return list;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
