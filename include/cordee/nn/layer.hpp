// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a layer is: a type that maps extent to extent, describes its parameters, and, bound to a
// backend and an input extent, computes.
//
// A layer at work is a node, and a node's type knows neither its place in the network nor its
// extents: these are numbers that it is built with. So what a hundred layers do is compiled once
// for each kind of layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/series.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/quantisation.hpp>
#include <cordee/nn/table.hpp>
#include <cordee/ops/batch_norm.hpp>
#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// What layers compute with.
template <Precision P, Device D, class Engine>
struct backend {
  using precision = P;
  using device = D;
  using stream = typename D::stream;
  using engine = Engine;
  // activations, their gradients, what engines pack
  using number = typename activation_of<P>::type;
  using real = typename P::master;  // parameters, their gradients, statistics

  static constexpr int block(int channels) { return Engine::template block<number>(channels); }
  static constexpr std::size_t numbers(const extent& e) {
    return sample_size(e, block(e.channels));
  }
};

/// Hands out places while a network is built, in forward order.
struct placement {
  std::span<const segment> table;
  std::size_t next = 0;        // the next trainable segment
  std::size_t statistic = 0;   // the next running statistic
  std::size_t image = 0;       // bytes of the image that are taken
  std::size_t activation = 0;  // activations that are taken
  std::size_t largest = 0;     // the most numbers of a sample between two layers
  std::size_t quantised = 0;   // layers that know the range of what they read

  /// Room for so many numbers of type T in the image.
  template <class T>
  std::size_t take_image(std::size_t numbers) {
    const std::size_t at = image;
    image += aligned(numbers) * sizeof(T);
    return at;
  }
  void meet(std::size_t numbers) { largest = std::max(largest, numbers); }
};

/// What forward leaves to backward. Layers hold a number and not memory of their own: then they are
/// plain values, and a network of a hundred of them costs the compiler nothing to build and
/// destroy.
template <class D>
class activations {
 public:
  activations(const D& device, std::size_t count) {
    while (all_.size() < count) all_.push_back(block(device, 0));
  }
  /// Activation `index` with room for `size` numbers of type T.
  template <class T>
  [[nodiscard]] T* room(std::size_t index, std::size_t size) {
    all_[index].reserve(size * sizeof(T));
    return reinterpret_cast<T*>(all_[index].span().data);
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const block& one : all_) sum += one.size();
    return sum;
  }

 private:
  using block = buffer<std::byte, D>;

  std::vector<block> all_;
};

/// Gradients of activations: as many as are alive at once, the last one returned given out first,
/// because it is the one that is still in the cache.
template <class Number, class D>
class gradient_buffers {
 public:
  explicit gradient_buffers(const D& device) : device_(device) {}

  /// All are free again, and hold at least `size` numbers.
  void reset(std::size_t size) {
    if (size > size_) {
      all_.clear();
      size_ = size;
    }
    free_.clear();
    for (block& one : all_) free_.push_back(numbers(one));
  }
  [[nodiscard]] Number* take() {
    if (free_.empty()) {
      all_.push_back(block(device_, std::max<std::size_t>(size_, 1) * sizeof(Number)));
      return numbers(all_.back());
    }
    Number* last = free_.back();
    free_.pop_back();
    return last;
  }
  void give(Number* one) { free_.push_back(one); }
  [[nodiscard]] std::size_t bytes() const { return all_.size() * size_ * sizeof(Number); }

 private:
  using block = buffer<std::byte, D>;  // the type that activations keep: one vector less to compile

  static Number* numbers(block& of) { return reinterpret_cast<Number*>(of.span().data); }

  D device_;
  std::size_t size_ = 0;
  std::vector<block> all_;
  series<Number*> free_;
};

/// Masters on their way into the image that kernels read.
template <class B>
struct publish_pass {
  const typename B::real* plane;
  std::byte* image;
  const typename B::device& where;
  typename B::stream s;

  template <class T>
  [[nodiscard]] T* at(std::size_t place) const {
    return reinterpret_cast<T*>(image + place);
  }
};

/// What the layers of one forward pass share.
template <class B>
struct forward_pass {
  const std::byte* image;   // what kernels read
  typename B::real* plane;  // where the running statistics are
  int samples;
  phase what;
  combine_sums combine;
  activations<typename B::device>* store;
  buffer<double, typename B::device>* scratch;
  typename B::stream s;
  bool frozen = false;  // training leaves the running statistics
  // of a quantised precision
  quantisation_of<typename B::precision, typename B::device>* quantisation = nullptr;

  template <class T>
  [[nodiscard]] const T* at(std::size_t place) const {
    return reinterpret_cast<const T*>(image + place);
  }
  /// Activation `index` with room for a sample of that many numbers, times the samples.
  [[nodiscard]] typename B::number* room(std::size_t index, std::size_t numbers) const {
    return store->template room<typename B::number>(index,
                                                    static_cast<std::size_t>(samples) * numbers);
  }
};

/// What the layers of one backward pass share.
template <class B>
struct backward_pass {
  const std::byte* image;
  typename B::real* plane;  // where the parameters' gradients go
  into mode;
  int samples;
  combine_sums combine;
  gradient_buffers<typename B::number, typename B::device>* gradients;
  buffer<double, typename B::device>* scratch;
  buffer<typename B::number, typename B::device>* workspace;
  typename B::stream s;

  template <class T>
  [[nodiscard]] const T* at(std::size_t place) const {
    return reinterpret_cast<const T*>(image + place);
  }
};

/// Where a layer's input gradient goes: added onto something, into a buffer of its own choice, or,
/// at the network's input, nowhere.
template <class Number>
struct destination {
  Number* onto = nullptr;
  bool wanted = true;
};

/// For layers whose input gradient stands where the output gradient stood.
template <class B>
typename B::number* deliver(const backward_pass<B>& pass, const extent& at, typename B::number* dx,
                            destination<typename B::number> to) {
  if (to.wanted && to.onto == nullptr) return dx;
  if (to.wanted) add(static_cast<std::size_t>(pass.samples) * B::numbers(at), dx, to.onto, pass.s);
  pass.gradients->give(dx);
  return to.onto;
}

/// A layer is described, never built, by its type L:
///   L::out(in)                    its output's extent
///   L::describe(in, catalogue)    its parameters, in forward order
///   L::bind<B, in>(placement&)    the layer at work, a node: publish, forward, backward
/// bind tells `meet` how many numbers come in and go out; what it refuses about `in` it says there.
/// It runs once a network, so those that build much are cold: size counts, and compile time.
/// backward consumes dy, a buffer of the pass, and returns dx; it calls ready(segment) in
/// descending order, each after the layer's weight and input gradients are both done.
template <class L>
concept Layer = requires(const extent& in, catalogue& to) {
  { L::out(in) } -> std::same_as<extent>;
  { L::describe(in, to) };
};

/// What L binds to.
template <class L, class B, extent In>
using node_of = decltype(L::template bind<B, In>(std::declval<placement&>()));

}  // namespace cordee::inline CORDEE_ABI
