// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Composition of layers: `sequential` of different ones, `repeat` of equal ones, `stage` of layers
// that share a part of their names.
//
// One parameter pack and one array of extents instead of recursion over the layers, so that a deep
// network compiles in seconds.
#pragma once

#include <array>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::nn {

/// What a convolution may make its input of.
template <class B>
using input_of = ops::normalized_input<typename B::number, typename B::real>;
/// A node that may normalize its input for the end of the residual block before it.
template <class Node, class B>
concept ReadsSum = requires(Node& node, const forward_pass<B>& pass, const input_of<B>& input) {
  node.read_sum(pass, input);
};

/// Node I of a sequence.
template <std::size_t I, class Node>
struct indexed_node {
  Node node;
};

template <class First, class...>
struct first_type {
  using type = First;
};

/// Nodes as base classes: a std::tuple of them takes many times as long to compile.
template <class Indices, class... Nodes>
struct sequential_node;
template <std::size_t... I, class... Nodes>
struct sequential_node<std::index_sequence<I...>, Nodes...> : indexed_node<I, Nodes>... {
  using first_node = typename first_type<Nodes...>::type;
  using last_node = typename decltype((std::type_identity<Nodes>{}, ...))::type;
  static constexpr bool skips_frozen_gradients = (SkipsFrozenGradients<Nodes> && ...);
  static constexpr bool keeps_order = true;
  /// The activations before each node, and before the end.
  std::array<buffer_sizes, sizeof...(I) + 1> bounds;

  template <class B>
  void pack_parameters(const pack_pass<B>& pass) const {
    (this->indexed_node<I, Nodes>::node.pack_parameters(pass), ...);
  }
  template <class B, class N, class... Next>
  const N* forward(const forward_pass<B>& pass, const N* x, Next&... next) {
    ((x = forward_at<I>(pass, x, next...)), ...);
    return x;
  }
  template <class B, class N, class Ready>
  N* backward(const backward_pass<B>& pass, N* dy, gradient_target<N> target, Ready& ready) {
    ((dy = pass.is_complete() ? dy : backward_at<sizeof...(I) - 1 - I>(pass, dy, target, ready)),
     ...);
    return dy;
  }
  /// The output that the last node writes; see writes_given_output.
  template <class N>
  void write_to(N* y)
    requires requires(last_node& node) { node.write_to(y); }
  {
    at<sizeof...(I) - 1>(*this).write_to(y);
  }
  template <class B>
    requires detail::nn::QuantizesInput<first_node, B>
  auto input_target(const forward_pass<B>& pass) {
    return at<0>(*this).input_target(pass);
  }
  template <class B>
    requires detail::nn::ReadsSum<first_node, B>
  bool read_sum(const forward_pass<B>& pass, const input_of<B>& input) {
    return at<0>(*this).read_sum(pass, input);
  }
  /// The node that writes the sequence's output.
  [[nodiscard]] last_node& last() { return at<sizeof...(I) - 1>(*this); }
  template <class B>
    requires detail::nn::HasGradientOperands<last_node, B>
  auto gradient_operands(const backward_pass<B>& pass) {
    return at<sizeof...(I) - 1>(*this).gradient_operands(pass);
  }

 private:
  template <std::size_t K, class B, class N, class Ready>
  N* backward_at(const backward_pass<B>& pass, N* dy, gradient_target<N> target, Ready& ready) {
    auto& current = at<K>(*this);
    using type = std::remove_reference_t<decltype(current)>;
    return run_behind<type>(pass.saved, bounds[ForgetsOutput<type> ? K : K + 1], [&] {
      if constexpr (K > 0) {
        auto& previous = at<K - 1>(*this);
        if constexpr (RestoresOutput<decltype(previous), B> &&
                      requires { current.restore_input(dy); })
          if (previous.has_temporary_output()) current.restore_input(previous.restore_output(pass));
        return backward_behind(current, pass, dy, gradient_target<N>{}, ready, previous);
      } else {
        return current.backward(pass, dy, target, ready);
      }
    });
  }
  template <std::size_t K, class B, class N, class... Next>
  const N* forward_at(const forward_pass<B>& pass, const N* x, Next&... next) {
    auto& current = at<K>(*this);
    constexpr bool last = K + 1 == sizeof...(I);
    const N* const y = run_behind<std::remove_reference_t<decltype(current)>>(
        pass.saved, bounds[last ? K + 1 : K + 2], [&] {
          if constexpr (last)
            return detail::nn::forward_before(current, pass, x, next...);
          else
            return detail::nn::forward_before(current, pass, x, at<K + 1>(*this));
        });
    if constexpr (K > 0)
      if constexpr (RestoresOutput<decltype(at<K - 1>(*this)), B>)
        at<K - 1>(*this).release_output(pass);
    return y;
  }
  template <std::size_t K, class Node>
  static Node& at(indexed_node<K, Node>& indexed) {
    return indexed.node;
  }
};

/// What a sequence notes of one of its layers.
struct noted_layer {
  std::size_t output;                       // index of its activation
  std::size_t input, gradients, forgotten;  // bytes of a sample, for layout_builder::note_gradients
};

/// The layers of a sequence while they are bound.
class sequence_layout {
 public:
  /// `bounds`: the activations before each layer, and before the end.
  [[gnu::cold, gnu::noinline]] sequence_layout(layout_builder& layout,
                                               std::span<const noted_layer> layers,
                                               buffer_sizes* bounds)
      : layout_(layout),
        layers_(layers),
        bounds_(bounds),
        output_(std::exchange(layout.output_index, own_activation)) {}
  /// For the layer that is bound next, or at the end: those before it are bound.
  [[gnu::cold, gnu::noinline]] layout_builder& next() {
    if (next_ > 0) {
      const noted_layer& bound = layers_[next_ - 1];
      const bool restores = next_ > 1 && layers_[next_ - 2].output == temporary_activation;
      layout_.note_gradients(parts_, bound.gradients, restores ? bound.input : 0, bound.forgotten);
    }
    bounds_[next_] = layout_.position();
    parts_ = layout_.pass.parts.size();
    if (next_ < layers_.size())
      layout_.output_index = next_ + 1 < layers_.size() ? layers_[next_].output : output_;
    ++next_;
    return layout_;
  }

 private:
  layout_builder& layout_;
  std::span<const noted_layer> layers_;
  buffer_sizes* bounds_;
  std::size_t output_;  // of the sequence, which the last layer writes
  std::size_t next_ = 0, parts_ = 0;
};

/// The nodes of a repeated layer.
template <class Node>
struct repeat_node {
  static constexpr bool skips_frozen_gradients = SkipsFrozenGradients<Node>;
  static constexpr bool keeps_order = true;
  extent in;
  buffer_sizes begin, each;  // the activations before the first node, and those of each
  std::vector<Node> nodes;

  template <class B>
  void pack_parameters(const pack_pass<B>& pass) const {
    for (const Node& node : nodes) node.pack_parameters(pass);
  }
  template <class B, class N, class... Next>
  const N* forward(const forward_pass<B>& pass, const N* x, Next&... next) {
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i)
      x = run_behind<Node>(pass.saved, end(i + 1), [&] {
        return detail::nn::forward_before(nodes[i], pass, x, nodes[i + 1]);
      });
    if (nodes.empty()) return x;
    return run_behind<Node>(pass.saved, end(nodes.size() - 1), [&] {
      return detail::nn::forward_before(nodes.back(), pass, x, next...);
    });
  }
  /// Null for what is empty.
  template <class B>
    requires detail::nn::QuantizesInput<Node, B>
  auto input_target(const forward_pass<B>& pass) {
    return nodes.empty() ? decltype(nodes[0].input_target(pass)){} : nodes[0].input_target(pass);
  }
  template <class B>
    requires detail::nn::ReadsSum<Node, B>
  bool read_sum(const forward_pass<B>& pass, const input_of<B>& input) {
    return !nodes.empty() && nodes[0].read_sum(pass, input);
  }
  template <class B, class N, class Ready>
  N* backward(const backward_pass<B>& pass, N* dy, gradient_target<N> target, Ready& ready) {
    if (nodes.empty()) return pass.route_input_gradient(in, dy, target);
    for (std::size_t i = nodes.size(); i-- > 0 && !pass.is_complete();)
      dy = run_behind<Node>(pass.saved, end(i), [&] {
        return nodes[i].backward(pass, dy, i == 0 ? target : gradient_target<N>{}, ready);
      });
    return dy;
  }
  /// The activations before the end of node i.
  [[nodiscard]] buffer_sizes end(std::size_t i) const {
    return {begin.bytes + (i + 1) * each.bytes, begin.count + (i + 1) * each.count};
  }
};

}  // namespace detail::nn

/// Layer made of others, each of which reads the one before it.
template <Layer... Layers>
struct sequential {
  static_assert(sizeof...(Layers) > 0, "a sequential needs at least one layer");

  /// See Layer.
  static constexpr extent out(extent e) {
    ((e = Layers::out(e)), ...);
    return e;
  }
  /// Adds the layers' parameters in order.
  static constexpr void describe(extent e, parameter_registry& registry) {
    ((Layers::describe(e, registry), e = Layers::out(e)), ...);
  }
  /// See Layer.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    return bind<B, In>(layout, std::index_sequence_for<Layers...>{});
  }

 private:
  template <std::size_t I>
  using layer = std::tuple_element_t<I, std::tuple<Layers...>>;
  template <extent In>
  static constexpr auto inputs = [] {
    std::array<extent, sizeof...(Layers)> extents;
    extent e = In;
    std::size_t i = 0;
    ((extents[i++] = e, e = Layers::out(e)), ...);
    return extents;
  }();
  template <class B, extent In, std::size_t... I>
  [[gnu::cold]] static auto bind(layout_builder& layout, std::index_sequence<I...>) {
    constexpr std::size_t largest = std::max({B::numbers(inputs<In>[I])..., B::numbers(out(In))});
    layout.note_activation_size(largest);
    using bound_nodes = detail::nn::sequential_node<  // g++ 12 does not compile node_of here
        std::index_sequence<I...>, decltype(Layers::template bind<B, inputs<In>[I]>(layout))...>;
    static constexpr detail::nn::noted_layer notes[] = {note<B, In, I>()...};
    std::array<detail::nn::buffer_sizes, sizeof...(I) + 1> bounds{};
    detail::nn::sequence_layout sequence(layout, notes, bounds.data());
    return bound_nodes{{Layers::template bind<B, inputs<In>[I]>(sequence.next())}...,  // in order,
                       (sequence.next(), bounds)};                                     // in place
  }
  template <class B, extent In, std::size_t I>
  static constexpr detail::nn::noted_layer note() {
    constexpr std::size_t width = sizeof(typename B::number),
                          in = width * B::numbers(inputs<In>[I]),
                          out = width * B::numbers(layer<I>::out(inputs<In>[I]));
    constexpr bool forgets =
        detail::nn::forgets_output<layer<I>> && !Quantized<typename B::precision>;
    bool is_temporary = false;  // its output, which layer I + 1 alone reads, or computes again
    if constexpr (I + 1 < sizeof...(Layers))
      is_temporary = B::restores_outputs && detail::nn::restores_output<layer<I>> &&
                     detail::nn::forgets_input<layer<I + 1>>;
    return {is_temporary ? detail::nn::temporary_activation : detail::nn::own_activation, in,
            in + out, forgets ? out : 0};
  }
};

namespace detail::nn {
template <class... Layers>
inline constexpr bool writes_given_output<sequential<Layers...>> =
    (writes_given_output<Layers>, ...);  // the last one's
}  // namespace detail::nn

/// A sequential whose parameters are named layer1, layer2, … of the network.
template <Layer... Layers>
struct stage : sequential<Layers...> {
  /// Adds the layers' parameters below the stage's name.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_stage();
    sequential<Layers...>::describe(in, registry);
    registry.leave(parent);
  }
};

/// `Times` equal layers, which must keep the extent: one type, compiled once.
template <int Times, Layer L>
struct repeat {
  static_assert(Times >= 0, "repeat: the number of layers is negative");

  static constexpr extent out(const extent& in) { return in; }  ///< See Layer.
  /// Adds the parameters of `Times` layers.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    for (int i = 0; i < Times; ++i) L::describe(in, registry);
  }
  /// See Layer. An L that changes the extent is a compile error.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    static_assert(L::out(In) == In,
                  "only a layer that keeps the extent can be repeated: put the one that changes it "
                  "before the repeat");
    layout.note_activation_size(B::numbers(In));
    detail::nn::repeat_node<detail::nn::node_of<L, B, In>> node{
        .in = In, .begin = layout.position(), .each = {}, .nodes = {}};
    const auto bind_one = [&] {
      const std::size_t parts = layout.pass.parts.size();
      auto one = L::template bind<B, In>(layout);
      layout.note_gradients(parts, 2 * sizeof(typename B::number) * B::numbers(In));
      return one;
    };
    if constexpr (Times > 0) {  // sized once, by copies: growth takes longer to compile
      node.nodes = std::vector(std::size_t{Times}, bind_one());
      node.each = {layout.position().bytes - node.begin.bytes,
                   layout.position().count - node.begin.count};
      for (std::size_t i = 1; i < Times; ++i) node.nodes[i] = bind_one();
    }
    return node;
  }
};

}  // namespace cordee::inline CORDEE_ABI
