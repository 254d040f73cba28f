// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every layer of a network alone, on a device, beside its definition in fp64 on the CPU.
//
//   error = |a - b| / |b|   of outputs a; b comes of the same inputs, which the precision holds
//
// A convolution of bytes makes the very integers of its definition. Of a ReLU both sides pass the
// same gradients: the definition's backward sees the device's outputs, since a number that is zero
// but for rounding may stand on either side of it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/each_layer.hpp"
#include "tests/support/on_grid.hpp"

namespace bench {

using namespace cordee;
using doubles = std::vector<double>;

/// An error that keeps no bar where there is none to tell, and that JSON can say.
inline double settled(double error) { return std::isfinite(error) ? error : 1e300; }

inline double relative_error(const doubles& a, const doubles& b) {
  expects(a.size() == b.size(), "relative_error: not two vectors of one space");
  double off = 0, whole = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    off += (a[i] - b[i]) * (a[i] - b[i]);
    whole += b[i] * b[i];
  }
  return off == 0 ? 0 : settled(std::sqrt(off / whole));
}

/// What a layer's relative error may be.
template <Precision P>
inline constexpr double bar = std::same_as<P, fp16>   ? 1e-3
                              : std::same_as<P, bf16> ? 1e-2
                              : std::same_as<P, fp32> ? 1e-5
                              : Quantised<P>          ? 0
                                                      : 1e-12;

/// What is known of a layer at work beside its node.
struct surroundings {
  extent in, out;
  bool flat;  // the outputs lie one after another: a classifier's
  std::span<const segment> table;
  std::span<const beginning> begin;
  std::size_t trainable, plane_size;
};
template <class L>
inline constexpr bool is_flat = false;
template <int C>
inline constexpr bool is_flat<linear<C>> = true;
template <class L, extent In>
constexpr surroundings around() {
  constexpr auto t = [] {
    catalogue count;
    L::describe(In, count);
    return count.sum();
  }();
  surroundings at{
      In, L::out(In), is_flat<L>, {}, {}, t.trainable, t.trainable_end + t.statistics_end};
  if constexpr (t.trainable > 0) {
    at.table = parameter_table<L, In>::segments;
    at.begin = parameter_table<L, In>::beginnings;
  }
  return at;
}

/// A layer's node on its device, behind plain numbers in NCHW. Compiled once for a kind of layer.
template <class B, class Node>
class at_work {
  using number = typename B::number;
  using real = typename B::real;
  using D = typename B::device;

 public:
  at_work(const D& where, const Node& node, const placement& to, const surroundings& at,
          int samples, const doubles& plane)
      : where_(where),
        node_(node),
        at_(at),
        samples_(samples),
        largest_(to.largest),
        plane_(where, s_, support::converted<real>(plane)),
        gradients_(where, at.plane_size),
        image_(where, to.image),
        store_(where, to.activation) {
    node_.publish(publish_pass<B>{plane_.data(), image_.span().data, where_, s_});
  }

  doubles forward(const doubles& x) {
    x_.emplace_back(where_, s_, there(x, at_.in, block_in()));
    const forward_pass<B> pass{
        image_.span().data, plane_.data(), samples_, phase::train, {}, &store_, &scratch_, s_};
    y_ = node_.forward(pass, x_.back().data());
    return here(y_, at_.out, block_out());
  }
  /// Backward believes that forward gave this.
  void believe(const doubles& y) {
    const auto blocks = there(y, at_.out, block_out());
    where_.copy(const_cast<number*>(y_), blocks.data(), blocks.size() * sizeof(number), s_);
    where_.finish(s_);
  }
  doubles backward(const doubles& dy) {
    free_.reset(static_cast<std::size_t>(samples_) * largest_);
    number* const room = free_.take();
    const auto blocks = there(dy, at_.out, block_out());
    where_.copy(room, blocks.data(), blocks.size() * sizeof(number), s_);
    const backward_pass<B> pass{image_.span().data,
                                gradients_.span().data,
                                into::overwrite,
                                samples_,
                                {},
                                &free_,
                                &scratch_,
                                &workspace_,
                                s_};
    auto ready = [](std::size_t) {};
    return here(node_.backward(pass, room, destination<number>{}, ready), at_.in, block_in());
  }
  /// Of one tensor, after backward.
  [[nodiscard]] doubles gradient(const segment& of) const {
    const auto all = on_host<real, D>(where_, gradients_.span(), s_);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(of.offset);
    return {first, first + static_cast<std::ptrdiff_t>(of.size)};
  }

 private:
  [[nodiscard]] int block_in() const { return B::block(at_.in.channels); }
  [[nodiscard]] int block_out() const { return at_.flat ? 1 : B::block(at_.out.channels); }
  static std::vector<number> there(const doubles& x, const extent& e, int block) {
    return support::converted<number>(support::in_blocks(x, e, block));
  }
  doubles here(const number* from, const extent& e, int block) const {
    std::vector<number> host(static_cast<std::size_t>(samples_) * sample_size(e, block));
    where_.copy(host.data(), from, host.size() * sizeof(number), s_);
    where_.finish(s_);
    return support::out_of_blocks(support::converted_back(host), e, block);
  }

  D where_;
  Node node_;
  surroundings at_;
  int samples_;
  std::size_t largest_;
  typename B::stream s_ = where_.open();
  support::remote<real, D> plane_;
  buffer<real, D> gradients_;
  buffer<std::byte, D> image_;
  std::vector<support::remote<number, D>> x_;
  activations<D> store_;
  buffer<double, D> scratch_{where_, 0};
  gradient_buffers<number, D> free_{where_};
  buffer<number, D> workspace_{where_, 0};
  const number* y_ = nullptr;
};

struct layer_errors {
  double y = 0, dx = 0, parameters = 0;  // of all parameters' gradients the worst
};

/// First weights that N holds, and something else than nothing where a tensor begins as nothing.
template <Number N>
doubles first_plane(const surroundings& at) {
  doubles plane(at.plane_size);
  for (std::size_t k = 0; k < at.trainable; ++k) {
    const segment& s = at.table[k];
    const double deviation = at.begin[k].variance > 0 ? std::sqrt(at.begin[k].variance) : 0.25;
    const doubles draw = normal_numbers(s.size, 10 + k);
    for (std::size_t i = 0; i < s.size; ++i)
      plane[s.offset + i] = support::exact(
          support::nearest<N>((s.what == kind::scale ? 1 : 0) + deviation * draw[i]));
  }
  return plane;
}

template <class B, class Found, class Right>
layer_errors compare(at_work<B, Found>& found, Right& right, const surroundings& at, int samples) {
  using number = typename B::number;
  const auto n = static_cast<std::size_t>(samples);
  const doubles x = support::held<number>(n * at.in.size(), 1), y = found.forward(x);
  layer_errors e{.y = relative_error(y, right.forward(x))};
  right.believe(y);
  const doubles dy = support::held<number>(n * at.out.size(), 2);
  e.dx = relative_error(found.backward(dy), right.backward(dy));
  for (const segment& s : at.table.first(at.trainable))
    e.parameters = std::max(e.parameters, relative_error(found.gradient(s), right.gradient(s)));
  return e;
}

template <class L, extent In, Precision P, class Engine, class D>
layer_errors errors_of(const D& where, int samples) {
  constexpr surroundings at = around<L, In>();
  const doubles plane = first_plane<typename P::storage>(at);
  const auto bound = [&]<class B>(const B*, const typename B::device& device) {
    placement to{at.table, 0, at.trainable};
    const auto node = L::template bind<B, In>(to);
    return at_work<B, node_of<L, B, In>>(device, node, to, at, samples, plane);
  };
  auto found = bound(static_cast<const backend<P, D, Engine>*>(nullptr), where);
  auto right = bound(static_cast<const backend<fp64, cpu, reference>*>(nullptr), cpu{});
  return compare(found, right, at, samples);
}

/// What an engine makes of numbers that it quantises: sums, or the numbers that those stand for.
template <SumSink Out, class Engine, class D>
doubles of_bytes(const D& where, const convolution_problem& p, int samples) {
  const auto n = static_cast<std::size_t>(samples), filters = static_cast<std::size_t>(p.filters);
  const affine<float> k = fit_affine(-2.0f, 3.0f, unsigned_bytes);  // clips some
  random_sequence draw(1, purpose::test, 0, 0);
  std::vector<std::int8_t> w(p.weights());
  for (std::int8_t& one : w)
    one = static_cast<std::int8_t>(static_cast<int>(draw.below(255)) - 127);
  std::vector<float> each(filters);
  for (float& one : each) one = static_cast<float>(0.01 + draw.uniform());

  const int in = Engine::template block<float>(p.in.channels),
            out = Engine::template block<float>(p.filters);
  const auto s = where.open();
  const auto numbers = support::converted<float>(
      support::in_blocks(support::held<float>(n * p.in.size(), 1), p.in, in));
  support::remote<float, D> x(where, s, numbers), scales(where, s, each);
  support::remote<std::int8_t, D> weights(where, s, w),
      image(where, s, std::vector<std::int8_t>(Engine::packed_bytes(p)));
  support::remote<affine<float>, D> by(where, s, {k});
  support::remote<Out, D> y(where, s, std::vector<Out>(n * sample_size(p.out(), out)));
  Engine::pack_bytes(p, weights.data(), image.data(), s);
  const auto fprop = [&](scaling_on<typename D::stream> scaling) {
    Engine::fprop_bytes(p, samples, x.data(), scaling, image.data(), scales.data(), y.data(), s);
  };
  if constexpr (D::host_memory)
    fprop(k);
  else
    fprop(by.data());
  const std::vector<Out> found = y.read();
  return support::out_of_blocks(doubles(found.begin(), found.end()), p.out(), out);
}
template <class Engine, class D>
double byte_error(const D& where, const convolution_problem& p, int samples) {
  const auto error_of = [&]<class Out>(Out) {
    return relative_error(of_bytes<Out, Engine>(where, p, samples),
                          of_bytes<Out, reference>(cpu{}, p, samples));
  };
  return std::max(error_of(std::int32_t{}), error_of(float{}));
}

}  // namespace bench
