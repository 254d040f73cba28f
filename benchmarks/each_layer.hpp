// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The distinct layers of a network, by name.
#pragma once

#include <set>
#include <string>

#include <cordee/cordee.hpp>

namespace bench {

using namespace cordee;

/// Calls f.operator()<layer, input>(name) for each layer of a network; a block's norm, sum and ReLU
/// are one layer.
struct layers_of {
  template <extent In, class F, class L, class... Rest>
  static void visit(const sequential<L, Rest...>*, const F& f) {
    visit<In>(static_cast<const L*>(nullptr), f);
    if constexpr (sizeof...(Rest) > 0)
      visit<L::out(In)>(static_cast<const sequential<Rest...>*>(nullptr), f);
  }
  template <extent In, class F, int Times, class L>
  static void visit(const repeat<Times, L>*, const F& f) {
    visit<In>(static_cast<const L*>(nullptr), f);
  }
  template <extent In, class F, class Body, class Norm, class Shortcut>
  static void visit(const residual<Body, Norm, Shortcut>*, const F& f) {
    visit<In>(static_cast<const Body*>(nullptr), f);
    f.template operator()<residual<identity, Norm>, Body::out(In)>("batch norm + add + ReLU");
    visit<In>(static_cast<const Shortcut*>(nullptr), f);
  }
  template <extent In, class F>
  static void visit(const identity*, const F&) {}

  template <extent In, class F, int K, int W, int T>
  static void visit(const convolution<K, W, T>*, const F& f) {
    f.template operator()<convolution<K, W, T>, In>(
        concat("convolution ", W, "x", W, ", stride ", T, ", ", K, " filters"));
  }
  template <extent In, class F, class A, batch_norm_options With>
  static void visit(const batch_norm<A, With>*, const F& f) {
    f.template operator()<batch_norm<A, With>, In>(std::same_as<A, relu> ? "batch norm + ReLU"
                                                                         : "batch norm");
  }
  template <extent In, class F, int C, int T>
  static void visit(const subsample_pad<C, T>*, const F& f) {
    f.template operator()<subsample_pad<C, T>, In>(concat("subsample to ", C));
  }
  template <extent In, class F, int W, int T, int P>
  static void visit(const max_pool<W, T, P>*, const F& f) {
    f.template operator()<max_pool<W, T, P>, In>(concat("max pool ", W, "x", W));
  }
  template <extent In, class F>
  static void visit(const global_average_pool*, const F& f) {
    f.template operator()<global_average_pool, In>("average pool");
  }
  template <extent In, class F, int C>
  static void visit(const linear<C>*, const F& f) {
    f.template operator()<linear<C>, In>(concat("linear to ", C));
  }
};

/// The same for each distinct layer, with the input's extent in its name.
template <class Net, class F>
void each_layer(const F& f) {
  std::set<std::string> names;
  layers_of::visit<Net::input>(static_cast<const typename Net::layers*>(nullptr),
                               [&]<class L, extent In>(const std::string& name) {
                                 const std::string full = concat(name, " on ", describe(In));
                                 if (names.insert(full).second) f.template operator()<L, In>(full);
                               });
}
template <class L>
inline constexpr bool is_convolution = false;
template <int K, int W, int T>
inline constexpr bool is_convolution<convolution<K, W, T>> = true;

}  // namespace bench
