// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Composition of layers: `sequential` of different ones, `repeat` of equal ones, `stage` of layers
// that share part of their names.
//
// It uses one parameter pack and one array of extents instead of recursion over the layers, so that
// a deep network compiles in seconds.
#pragma once

#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/nn/layer.hpp>
#include <cordee/nn/sequence_layout.hpp>

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
/// A node that may add for the end of the residual block before it, which it alone reads.
template <class Node, class B>
concept PoolsSum = requires(Node& node, const forward_pass<B>& pass, const input_of<B>& input) {
  node.pool_sum(pass, input);
};
/// Leaves the sum to `next`, one of these; nothing: asks whether it would take one.
template <class Next, class B>
bool leave_sum(Next& next, const forward_pass<B>& pass, const input_of<B>& input) {
  if constexpr (PoolsSum<Next, B>)
    return next.pool_sum(pass, input);
  else
    return next.read_sum(pass, input);
}

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
  sequence_bounds<sizeof...(I)> bounds;

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
  template <class B>
    requires detail::nn::ReadsMaxima<first_node, B>
  void read_maxima(const forward_pass<B>& pass, const input_of<B>& maxima) {
    at<0>(*this).read_maxima(pass, maxima);
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
    begin_node(pass.saved, bounds.before[ForgetsOutput<type> ? K : K + 1], KeepsOrder<type>);
    if constexpr (K > 0) {
      auto& previous = at<K - 1>(*this);
      if constexpr (RestoresOutput<decltype(previous), B> &&
                    requires { current.restore_input(dy); })
        if (previous.has_temporary_output()) current.restore_input(previous.restore_output(pass));
      dy = backward_behind(current, pass, dy, gradient_target<N>{}, ready, previous);
    } else {
      dy = current.backward(pass, dy, target, ready);
    }
    end_node(pass.saved, KeepsOrder<type>);
    return dy;
  }
  template <std::size_t K, class B, class N, class... Next>
  const N* forward_at(const forward_pass<B>& pass, const N* x, Next&... next) {
    auto& current = at<K>(*this);
    using type = std::remove_reference_t<decltype(current)>;
    constexpr bool last = K + 1 == sizeof...(I);
    begin_node(pass.saved, bounds.before[last ? K + 1 : K + 2], KeepsOrder<type>);
    if constexpr (last)
      x = detail::nn::forward_before(current, pass, x, next...);
    else
      x = detail::nn::forward_before(current, pass, x, at<K + 1>(*this));
    end_node(pass.saved, KeepsOrder<type>);
    if constexpr (K > 0)
      if constexpr (RestoresOutput<decltype(at<K - 1>(*this)), B>)
        at<K - 1>(*this).release_output(pass);
    return x;
  }
  template <std::size_t K, class Node>
  static Node& at(indexed_node<K, Node>& indexed) {
    return indexed.node;
  }
};

/// The nodes of a repeated layer.
template <class Node>
struct repeat_node {
  static constexpr bool skips_frozen_gradients = SkipsFrozenGradients<Node>;
  static constexpr bool keeps_order = true;
  extent in;
  repeat_bounds bounds;
  std::vector<Node> nodes;

  template <class B>
  void pack_parameters(const pack_pass<B>& pass) const {
    for (const Node& node : nodes) node.pack_parameters(pass);
  }
  template <class B, class N, class... Next>
  const N* forward(const forward_pass<B>& pass, const N* x, Next&... next) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool last = i + 1 == nodes.size();
      begin_node(pass.saved, bounds.end(last ? i : i + 1), KeepsOrder<Node>);
      x = last ? detail::nn::forward_before(nodes[i], pass, x, next...)
               : detail::nn::forward_before(nodes[i], pass, x, nodes[i + 1]);
      end_node(pass.saved, KeepsOrder<Node>);
    }
    return x;
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
    for (std::size_t i = nodes.size(); i-- > 0 && !pass.is_complete();) {
      begin_node(pass.saved, bounds.end(i), KeepsOrder<Node>);
      dy = nodes[i].backward(pass, dy, i == 0 ? target : gradient_target<N>{}, ready);
      end_node(pass.saved, KeepsOrder<Node>);
    }
    return dy;
  }
};

}  // namespace detail::nn

namespace detail::nn {

/// The extents before each layer, and at the end.
template <class... Layers>
[[nodiscard]] constexpr auto sequence_extents(extent e) {
  std::array<extent, sizeof...(Layers) + 1> extents;
  extent* to = extents.data();
  *to = e;
  ((e = *++to = Layers::out(e)), ...);
  return extents;
}
/// The numbers of a sample there.
template <class B, std::size_t N>
[[nodiscard]] constexpr auto sequence_numbers(const std::array<extent, N>& extents) {
  std::array<std::size_t, N> numbers;
  for (std::size_t i = 0; i < N; ++i) numbers[i] = B::numbers(extents[i]);
  return numbers;
}

template <class Indices, class... Layers>
struct sequence_binding;
template <std::size_t... I, class... Layers>
struct sequence_binding<std::index_sequence<I...>, Layers...> {
  /// See Layer.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    using nodes = sequential_node<  // g++ 12 does not compile node_of here
        std::index_sequence<I...>, decltype(Layers::template bind<B, inputs<In>[I]>(layout))...>;
    sequence_bounds<sizeof...(I)> bounds;
    sequence_layout sequence(layout, notes<Quantized<typename B::precision>>, numbers<B, In>.data(),
                             sizeof(typename B::number), B::restores_outputs, bounds.before);
    return nodes{{Layers::template bind<B, inputs<In>[I]>(sequence.next())}...,  // in order,
                 (sequence.next(), bounds)};                                     // in place
  }

 private:
  template <extent In>
  static constexpr auto inputs = sequence_extents<Layers...>(In);
  template <class B, extent In>
  static constexpr auto numbers = sequence_numbers<B>(inputs<In>);
  template <bool Quantized>
  static constexpr noted_layer notes[] = {
      {restores_output<Layers>, forgets_input<Layers>, forgets_output<Layers> && !Quantized}...};
};

}  // namespace detail::nn

/// Layer made of others, each of which reads the output of the one before.
template <Layer... Layers>
struct sequential
    : private detail::nn::sequence_binding<std::index_sequence_for<Layers...>, Layers...> {
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
  using detail::nn::sequence_binding<std::index_sequence_for<Layers...>, Layers...>::bind;
};

namespace detail::nn {
template <class First, class... Layers>
struct first_layer<sequential<First, Layers...>> : first_layer<First> {};
template <class... Layers>
inline constexpr bool writes_given_output<sequential<Layers...>> =
    (writes_given_output<Layers>, ...);  // the last one's
}  // namespace detail::nn

/// A sequential whose parameters are named layer1, layer2, … in the network.
template <Layer... Layers>
struct stage : sequential<Layers...> {
  /// Adds the layers' parameters under the stage's name.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_stage();
    sequential<Layers...>::describe(in, registry);
    registry.leave(parent);
  }
};

/// `Times` equal layers, which must preserve the extent: one type, compiled once.
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
        .in = In, .bounds = {}, .nodes = {}};
    if constexpr (Times > 0) {  // sized once, by copies: growth takes longer to compile
      detail::nn::repeat_layout layers(layout, 2 * sizeof(typename B::number) * B::numbers(In),
                                       node.bounds);
      node.nodes = std::vector(std::size_t{Times}, L::template bind<B, In>(layers.next()));
      for (std::size_t i = 1; i < Times; ++i)
        node.nodes[i] = L::template bind<B, In>(layers.next());
      layers.next();
    }
    return node;
  }
};

}  // namespace cordee::inline CORDEE_ABI
