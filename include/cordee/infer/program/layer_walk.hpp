// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Walks the layers of a network in forward order and calls a visitor for each, which computes what
// flows between them: names of tensors in a file, or numbers of layers in a list.
//
//   batch_norm<relu>              batch_norm, relu
//   residual<body, norm, cut>     body, norm, cut; add; relu
//   identity, dropout             nothing
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/dropout.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/relu.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/nn/sequential.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// The tensors of one layer, in the order of the network's table.
struct layer_tensors {
  std::string_view name;                // layer1.0.conv1
  std::span<const segment> trainable;   // weight; weight and bias
  std::span<const segment> statistics;  // running mean and variance; the range of an input; none
};

/// Takes the tensors of layer after layer from a table.
class layer_tensor_cursor {
 public:
  explicit layer_tensor_cursor(std::span<const segment> table)
      : trainable_(table.first(core::count_trainable(table))),
        statistics_(table.subspan(trainable_.size())) {}

  layer_tensors take() {
    const std::string_view first = trainable_.front().name,
                           layer = first.substr(0, first.rfind('.') + 1);
    return {layer.substr(0, layer.size() - 1), take(trainable_, layer), take(statistics_, layer)};
  }

 private:
  static std::span<const segment> take(std::span<const segment>& rest, std::string_view layer) {
    std::size_t n = 0;
    while (n < rest.size() && rest[n].name.starts_with(layer)) ++n;
    const auto taken = rest.first(n);
    rest = rest.subspan(n);
    return taken;
  }

  std::span<const segment> trainable_, statistics_;
};

/// What a visitor does with the layers. `value` is what flows between them.
template <class V>
concept LayerVisitor = requires(V& v, typename V::value x, const layer_tensors& t, const extent& in,
                                const convolution_problem& c, const ops::max_pool_problem& pool,
                                const ops::subsample_problem& subsample) {
  { v.convolution(c, t, x) } -> std::same_as<typename V::value>;
  { v.batch_norm(in, t, x) } -> std::same_as<typename V::value>;
  { v.relu(in, x) } -> std::same_as<typename V::value>;
  { v.add(in, x, x) } -> std::same_as<typename V::value>;
  { v.max_pool(pool, x) } -> std::same_as<typename V::value>;
  { v.global_average_pool(in, x) } -> std::same_as<typename V::value>;
  { v.subsample_pad(subsample, x) } -> std::same_as<typename V::value>;
  { v.linear(in, t, x) } -> std::same_as<typename V::value>;
};

template <Layer L>
using layer_tag = std::type_identity<L>;

/// The walk: each kind of layer is compiled once, for extents are values.
template <LayerVisitor V>
class layer_walk {
  using value = typename V::value;

 public:
  layer_walk(V& visitor, std::span<const segment> table) : visitor_(visitor), tensors_(table) {}

  /// The value behind layer L, whose input is x.
  template <Layer L>
  value walk(const extent& in, const value& x) {
    static_assert(
        requires(layer_tag<L> layer) { this->visit(layer, in, x); },
        "integer_network, write_onnx and equalize_layers do not know this layer: they know "
        "convolution, batch_norm, relu, identity, residual, projection, max_pool, subsample_pad, "
        "global_average_pool, dropout, linear, sequential, stage, repeat, recompute and "
        "offload_weights, but no type that is derived from one of them, for it may compute "
        "something else");
    return visit(layer_tag<L>{}, in, x);
  }

 private:
  // Overloads take a tag, so that a type derived from a layer is not that layer.
  template <int Depth, resnet_options S>
  value visit(layer_tag<nn::resnet_layers<Depth, S>>, const extent& in, const value& x) {
    return walk<typename nn::resnet_of<Depth, S>::layers>(in, x);
  }
  template <class... Layers>
  value visit(layer_tag<stage<Layers...>>, const extent& in, const value& x) {
    return walk<sequential<Layers...>>(in, x);
  }
  template <class L>
  value visit(layer_tag<recompute<L>>, const extent& in, const value& x) {
    return walk<L>(in, x);
  }
  template <class L>
  value visit(layer_tag<offload_activations<L>>, const extent& in, const value& x) {
    return walk<L>(in, x);
  }
  template <class L>
  value visit(layer_tag<offload_weights<L>>, const extent& in, const value& x) {
    return walk<L>(in, x);
  }
  template <class L>
  value visit(layer_tag<nn::plain_block<L>>, const extent& in, const value& x) {
    return walk<L>(in, x);
  }
  template <int Channels, int Stride, int GhostBatch>
  value visit(layer_tag<projection<Channels, Stride, GhostBatch>>, const extent& in,
              const value& x) {
    return walk<sequential<convolution<Channels, 1, Stride>,
                           batch_norm<identity, batch_norm_options{1, GhostBatch}>>>(in, x);
  }
  template <class... Layers>
  value visit(layer_tag<sequential<Layers...>>, extent e, value x) {
    ((x = walk<Layers>(e, x), e = Layers::out(e)), ...);
    return x;
  }
  template <int Times, class L>
  value visit(layer_tag<repeat<Times, L>>, const extent& in, value x) {
    for (int i = 0; i < Times; ++i) x = walk<L>(in, x);
    return x;
  }
  template <class Body, class Norm, class Shortcut>
  value visit(layer_tag<residual<Body, Norm, Shortcut>>, const extent& in, const value& x) {
    const extent out = Body::out(in);
    const value z = walk<Norm>(out, walk<Body>(in, x)), shortcut = walk<Shortcut>(in, x);
    return visitor_.relu(out, visitor_.add(out, z, shortcut));
  }
  template <int Filters, int Window, int Stride>
  value visit(layer_tag<convolution<Filters, Window, Stride>>, const extent& in, const value& x) {
    return visitor_.convolution(convolution<Filters, Window, Stride>::problem(in), tensors_.take(),
                                x);
  }
  template <class Activation, batch_norm_options With>
  value visit(layer_tag<batch_norm<Activation, With>>, const extent& in, const value& x) {
    return walk<Activation>(in, visitor_.batch_norm(in, tensors_.take(), x));
  }
  value visit(layer_tag<relu>, const extent& in, const value& x) { return visitor_.relu(in, x); }
  value visit(layer_tag<identity>, const extent&, const value& x) { return x; }
  value visit(layer_tag<dropout>, const extent&, const value& x) { return x; }
  template <int Window, int Stride, int Padding>
  value visit(layer_tag<max_pool<Window, Stride, Padding>>, const extent& in, const value& x) {
    return visitor_.max_pool(max_pool<Window, Stride, Padding>::problem(in), x);
  }
  value visit(layer_tag<global_average_pool>, const extent& in, const value& x) {
    return visitor_.global_average_pool(in, x);
  }
  template <int Channels, int Stride>
  value visit(layer_tag<subsample_pad<Channels, Stride>>, const extent& in, const value& x) {
    return visitor_.subsample_pad(subsample_pad<Channels, Stride>::problem(in), x);
  }
  template <int Classes>
  value visit(layer_tag<linear<Classes>>, const extent& in, const value& x) {
    return visitor_.linear(in, tensors_.take(), x);
  }

  V& visitor_;
  layer_tensor_cursor tensors_;
};

/// Walks the layers of a network, or of a type derived from one.
template <LayerVisitor V, Layer Root, class P, class D, class Engine, extent Input, int Classes,
          class L>
typename V::value walk_layers(V& visitor,
                              const network<Root, P, D, Engine, Input, Classes, L>& model,
                              const typename V::value& input) {
  return layer_walk<V>(visitor, model.segments()).template walk<Root>(Input, input);
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
