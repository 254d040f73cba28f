// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Layers one after another: `sequential` of different ones, `repeat` of equal ones, `stage` where
// they also share a part of their names.
//
// One pack and one array of extents: nothing recurs over the layers, which is why a deep network
// compiles in seconds.
#pragma once

#include <array>
#include <utility>

#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Number I of a row of nodes.
template <std::size_t I, class Node>
struct numbered_node {
  Node node;
};

template <std::size_t I, class Node>
numbered_node<I, Node> number(Node node) {
  return {std::move(node)};
}

/// Nodes one after another. Bases, since a std::tuple of them takes many times as long to compile.
template <class Numbers, class... Nodes>
struct sequential_node;
template <std::size_t... I, class... Nodes>
struct sequential_node<std::index_sequence<I...>, Nodes...> : numbered_node<I, Nodes>... {
  template <class B>
  void publish(const publish_pass<B>& pass) const {
    (this->numbered_node<I, Nodes>::node.publish(pass), ...);
  }
  template <class B, class N>
  const N* forward(const forward_pass<B>& pass, const N* x) {
    ((x = this->numbered_node<I, Nodes>::node.forward(pass, x)), ...);
    return x;
  }
  template <class B, class N, class Ready>
  N* backward(const backward_pass<B>& pass, N* dy, destination<N> to, Ready& ready) {
    ((dy = at<sizeof...(I) - 1 - I>(*this).backward(
          pass, dy, I + 1 == sizeof...(I) ? to : destination<N>{}, ready)),
     ...);
    return dy;
  }

 private:
  template <std::size_t K, class Node>
  static Node& at(numbered_node<K, Node>& one) {
    return one.node;
  }
};
template <std::size_t... I, class... Nodes>
sequential_node(numbered_node<I, Nodes>...) -> sequential_node<std::index_sequence<I...>, Nodes...>;

/// The nodes of a layer that is repeated.
template <class Node>
struct repeat_node {
  extent at;
  std::vector<Node> nodes;

  template <class B>
  void publish(const publish_pass<B>& pass) const {
    for (const Node& one : nodes) one.publish(pass);
  }
  template <class B, class N>
  const N* forward(const forward_pass<B>& pass, const N* x) {
    for (Node& one : nodes) x = one.forward(pass, x);
    return x;
  }
  template <class B, class N, class Ready>
  N* backward(const backward_pass<B>& pass, N* dy, destination<N> to, Ready& ready) {
    if (nodes.empty()) return deliver(pass, at, dy, to);
    for (std::size_t i = nodes.size(); i-- > 0;)
      dy = nodes[i].backward(pass, dy, i == 0 ? to : destination<N>{}, ready);
    return dy;
  }
};

}  // namespace detail

template <Layer... Layers>
struct sequential {
  static_assert(sizeof...(Layers) > 0, "a sequential needs at least one layer");

  static constexpr extent out(extent e) {
    ((e = Layers::out(e)), ...);
    return e;
  }
  static constexpr void describe(extent e, catalogue& to) {
    ((Layers::describe(e, to), e = Layers::out(e)), ...);
  }
  template <class B, extent In>
  [[gnu::cold]] static auto bind(placement& to) {
    return bind<B, In>(to, std::index_sequence_for<Layers...>{});
  }

 private:
  template <extent In>
  static constexpr auto before = [] {
    std::array<extent, sizeof...(Layers)> all;
    extent e = In;
    std::size_t i = 0;
    ((all[i++] = e, e = Layers::out(e)), ...);
    return all;
  }();
  template <class B, extent In, std::size_t... I>
  [[gnu::cold]] static auto bind(placement& to, std::index_sequence<I...>) {
    return detail::sequential_node{detail::number<I>(
        Layers::template bind<B, before<In>[I]>(to))...};  // braces: in this order
  }
};

/// A sequential whose layers are called layer1, layer2, … of the network.
template <Layer... Layers>
struct stage : sequential<Layers...> {
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.stage();
    sequential<Layers...>::describe(in, to);
    to.back(mark);
  }
};

/// `Times` layers of one kind, which must leave the extent as it is: one type, compiled once.
template <int Times, Layer L>
struct repeat {
  static_assert(Times >= 0, "a layer cannot be repeated less than zero times");

  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent& in, catalogue& to) {
    for (int i = 0; i < Times; ++i) L::describe(in, to);
  }

  template <class B, extent In>
  [[gnu::cold]] static auto bind(placement& to) {
    static_assert(L::out(In) == In,
                  "only a layer that keeps the extent can be repeated: put the one that changes it "
                  "before the repeat");
    detail::repeat_node<node_of<L, B, In>> all{.at = In, .nodes = {}};
    all.nodes.reserve(Times);
    for (int i = 0; i < Times; ++i) all.nodes.push_back(L::template bind<B, In>(to));
    return all;
  }
};

}  // namespace cordee::inline CORDEE_ABI
