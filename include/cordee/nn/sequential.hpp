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
#include <tuple>
#include <utility>

#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// The layers at work; `at` are the extents between them.
template <class B, extent In, class Indices, class... Layers>
class chain;

template <class B, extent In, std::size_t... I, class... Layers>
class chain<B, In, std::index_sequence<I...>, Layers...> {
  using number = typename B::number;
  static constexpr std::size_t size = sizeof...(Layers);
  static constexpr auto at = [] {
    std::array<extent, size + 1> e{In};
    ((e[I + 1] = Layers::out(e[I])), ...);
    return e;
  }();
  using nodes = std::tuple<typename Layers::template bound<B, at[I]>...>;

 public:
  static constexpr extent out = at[size];
  static constexpr std::size_t largest = std::max({Layers::template bound<B, at[I]>::largest...});

  chain(placement& to) : nodes_{typename Layers::template bound<B, at[I]>(to)...} {}

  void publish(const publish_pass<B>& pass) const { (std::get<I>(nodes_).publish(pass), ...); }
  const number* forward(const forward_pass<B>& pass, const number* x) {
    ((x = std::get<I>(nodes_).forward(pass, x)), ...);
    return x;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready& ready) {
    ((dy = std::get<size - 1 - I>(nodes_).backward(
          pass, dy, I + 1 == size ? to : destination<number>{}, ready)),
     ...);
    return dy;
  }

 private:
  nodes nodes_;
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
  using bound = detail::chain<B, In, std::index_sequence_for<Layers...>, Layers...>;
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
  class bound {
    static_assert(L::out(In) == In,
                  "only a layer that keeps the extent can be repeated: put the one that changes it "
                  "before the repeat");
    using number = typename B::number;
    using node = typename L::template bound<B, In>;

   public:
    static constexpr extent out = In;
    static constexpr std::size_t largest = node::largest;

    bound(placement& to) {
      nodes_.reserve(Times);
      for (int i = 0; i < Times; ++i) nodes_.emplace_back(to);
    }
    void publish(const publish_pass<B>& pass) const {
      for (const node& one : nodes_) one.publish(pass);
    }
    const number* forward(const forward_pass<B>& pass, const number* x) {
      for (node& one : nodes_) x = one.forward(pass, x);
      return x;
    }
    template <class Ready>
    number* backward(const backward_pass<B>& pass, number* dy, destination<number> to,
                     Ready& ready) {
      if (nodes_.empty()) return deliver(pass, In, dy, to);
      for (std::size_t i = nodes_.size(); i-- > 0;)
        dy = nodes_[i].backward(pass, dy, i == 0 ? to : destination<number>{}, ready);
      return dy;
    }

   private:
    std::vector<node> nodes_;
  };
};

}  // namespace cordee::inline CORDEE_ABI
