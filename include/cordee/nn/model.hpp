// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the trainer wants of a network, and a network made of layers.
//
// Masters, gradients and running statistics live in planes of the trainer's arena; kernels read an
// image that `publish` made of a plane, so that an averaged or a stale copy can run as well.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/core/random.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/ops/softmax_loss.hpp>

namespace cordee::inline CORDEE_ABI {

/// A network that the trainer can train. `segments` is constant and in forward order, statistics at
/// its tail. In training, forward moves the statistics in `plane` (a batch of no samples leaves
/// them) and multiplies the loss of each sample by the batch's seed(); backward writes or adds the
/// gradients of the last forward and calls ready(i) for every trainable segment, in descending
/// order, as soon as weight and input gradient of its layer are done.
template <class M>
concept Model = std::movable<M> && Precision<typename M::precision> && Device<typename M::device> &&
                requires(M m, span_on<typename M::precision::master, typename M::device> plane,
                         typename M::image image, const batch<typename M::device> b, phase p,
                         typename M::device::stream s, void (*ready)(std::size_t)) {
                  { M::segments() } -> std::convertible_to<std::span<const segment>>;
                  { M::input } -> std::convertible_to<extent>;
                  { M::classes } -> std::convertible_to<int>;
                  { m.initialise(plane, std::uint64_t{}) } -> std::same_as<void>;
                  { m.make_image() } -> std::same_as<typename M::image>;
                  { m.publish(plane, image, s) } -> std::same_as<void>;
                  { m.forward(image, plane, b, p, s) } -> std::same_as<void>;
                  { m.backward(image, plane, into::add, ready, s) } -> std::same_as<void>;
                  { m.read_score(s) } -> std::same_as<score>;
                  { m.where() } -> std::convertible_to<typename M::device>;
                };

/// The layers `Root` from an image of extent Input to logits of that many classes.
template <Layer Root, Precision P, Device D, class Engine, extent Input, int Classes>
class network {
  static_assert(std::same_as<typename activation_of<P>::type, typename P::master> ||
                    !D::host_memory,
                "layers on the CPU compute in the precision they master: use fp32 or fp64, or a "
                "GPU for fp16 and bf16");
  static_assert(Root::out(Input) == extent{Classes, 1, 1},
                "a network ends in one number a class: end it in linear<classes>");
  static_assert(Input.channels <= 4, "an image of bytes has at most four channels");

  using kit = backend<P, D, Engine>;
  using table = parameter_table<Root, Input, Quantised<P>>;
  using number = typename kit::number;
  using real = typename P::master;
  using stream = typename D::stream;

 public:
  using precision = P;
  using device = D;
  using engine = Engine;
  using image = buffer<std::byte, D>;

  static constexpr extent input = Input;
  static constexpr int classes = Classes;
  static constexpr std::span<const segment> segments() { return table::segments; }
  /// Numbers that train, without padding and statistics.
  static constexpr std::int64_t parameters() { return table::totals.parameters; }
  /// Segments that train.
  static constexpr std::size_t tensors() { return table::totals.trainable; }
  /// Multiplications of one sample's forward pass in convolutions and matrix products.
  static constexpr std::int64_t macs() { return table::totals.macs; }
  static constexpr int convolutions() { return table::totals.convolutions; }
  /// Numbers of a plane of the arena.
  static constexpr std::size_t plane_size() {
    return table::totals.trainable_end + table::totals.statistics_end;
  }

  double label_smoothing = 0;  // in training; evaluation is without
  combine_sums combine;        // shares batch norm's statistics between ranks
  /// The epoch from which training leaves batch norms' running statistics, and normalises by them.
  double freeze_norms_at = std::numeric_limits<double>::infinity();
  quantisation_of<P, D> quantisation;  // for int8: how ranges are learned, and what layers saw

  explicit network(D where = D{}) : network(where, placement{segments(), 0, tensors(), 0}) {}

  [[nodiscard]] const D& where() const { return device_; }

  /// Writes the first weights: a function of the seed alone.
  void initialise(span_on<real, D> plane, std::uint64_t seed) const {
    expects(plane.size >= plane_size(), "network: the plane is smaller than the network's table");
    std::vector<real> first(plane_size());
    for (std::size_t i = 0; i < segments().size(); ++i) {
      const beginning begin = table::beginnings[i];
      const double deviation = std::sqrt(begin.variance);
      random_sequence random(seed, purpose::weights, i, 0);
      real* out = first.data() + segments()[i].offset;
      for (std::size_t k = 0; k < segments()[i].size; ++k)
        out[k] = static_cast<real>(begin.mean + (deviation > 0 ? deviation * random.normal() : 0));
    }
    const stream s{};
    device_.copy(plane.data, first.data(), plane_size() * sizeof(real), s);
    device_.finish(s);
  }

  [[nodiscard]] image make_image() const { return image(device_, image_size_); }

  /// Masters to what the kernels read.
  void publish(span_on<const real, D> plane, image& out, stream s) const {
    expects(plane.size >= plane_size(), "network: the plane is smaller than the network's table");
    expects(out.size() >= image_size_, "network: the image is not one that make_image gave");
    root_.publish(publish_pass<kit>{plane.data, out.span().data, device_, s});
  }

  void forward(const image& in, span_on<real, D> plane, const batch<D>& b, phase what, stream s) {
    expects(plane.size >= plane_size(), "network: the plane is smaller than the network's table");
    expects(in.size() >= image_size_, "network: the image is not one that make_image gave");
    expects(b.count >= 0 && b.labels.size >= static_cast<std::size_t>(b.count) &&
                b.pixels.size >= static_cast<std::size_t>(b.count) * Input.size(),
            "network: the batch has fewer pixels or labels than its count says");
    expects(what == phase::evaluate || b.global >= std::max(b.count, 1),
            "network: a batch for training says how many samples the update has, its own included");
    const auto samples = static_cast<std::size_t>(b.count);
    input_.reserve(samples * kit::numbers(Input));
    slope_.reserve(samples * Classes);
    constexpr int V = kit::block(Input.channels);
    normalise_bytes<number, V>(Input, b.count, b.pixels.data, b.norm, input_.span().data, s);
    forward_pass<kit> pass{in.span().data, plane.data, b.count,   what,
                           combine,        &store_,    &scratch_, s};
    pass.frozen = b.epoch >= freeze_norms_at;
    if constexpr (Quantised<P>) pass.quantisation = &quantisation;
    logits_ = root_.forward(pass, input_.span().data);
    samples_ = b.count;
    trained_ = what == phase::train;
    const double smoothing = trained_ ? label_smoothing : 0, seed = trained_ ? b.seed() : 1;
    number* const slope = trained_ ? slope_.span().data : nullptr;
    if constexpr (D::host_memory)
      score_ = softmax_loss(Classes, b.count, logits_, b.labels.data, smoothing, seed, slope, s);
    else  // in evaluation there is no slope
      softmax_loss(Classes, b.count, logits_, b.labels.data, smoothing,
                   b.scale.empty() ? seed : b.share(), b.scale.data, slope, sums_.span().data, s);
  }

  template <class Ready>
  void backward(const image& in, span_on<real, D> gradients, into mode, Ready&& ready, stream s) {
    expects(trained_, "network: backward follows a forward pass for training");
    expects(gradients.size >= plane_size(),
            "network: the plane is smaller than the network's table");
    const auto samples = static_cast<std::size_t>(samples_);
    gradients_.reset(samples * largest_);
    const backward_pass<kit> pass{in.span().data, gradients.data, mode,        samples_, combine,
                                  &gradients_,    &scratch_,      &workspace_, s};
    number* dy = gradients_.take();
    device_.copy(dy, slope_.span().data, samples * Classes * sizeof(number), s);
    root_.backward(pass, dy, {.wanted = false}, ready);
  }

  /// Of the last forward pass.
  [[nodiscard]] score read_score(stream s) const {
    if constexpr (D::host_memory) {
      return score_;
    } else {
      score_sums sums;
      device_.copy(&sums, sums_.span().data, sizeof(sums), s);
      device_.finish(s);
      if constexpr (Quantised<P>)
        if (!trained_) quantisation.expect_ranges(device_, s);
      return checked(sums, Classes);
    }
  }
  /// What a pass carries beside its batch. Memory of a network only ever grows: when it has moved
  /// it is more.
  struct carried {
    std::size_t bytes;
    double label_smoothing;
    bool frozen, counts;
    bool operator==(const carried&) const = default;
  };
  /// Nothing where the host takes part in a pass.
  [[nodiscard]] std::optional<carried> carries(const batch<D>& b) const {
    if (combine) return {};
    bool counts = false;
    if constexpr (Quantised<P>) counts = quantisation.percentile < 100;
    return carried{store_.bytes() + gradients_.bytes() +
                       (input_.size() + slope_.size() + workspace_.size()) * sizeof(number),
                   label_smoothing, b.epoch >= freeze_norms_at, counts};
  }
  /// (samples, classes) of the last forward pass.
  [[nodiscard]] span_on<const number, D> logits() const {
    return {logits_, static_cast<std::size_t>(samples_) * Classes};
  }

 private:
  [[gnu::cold]] network(const D& where, placement to)
      : device_(where),
        root_(Root::template bind<kit, Input>(to)),
        image_size_(to.image),
        largest_(to.largest),
        store_(where, to.activation),
        input_(where, 0),
        slope_(where, 0),
        sums_(where, D::host_memory ? 0 : 1),
        workspace_(where, 0),
        scratch_(where, 0),
        gradients_(where) {
    if constexpr (Quantised<P>) {
      if constexpr (D::host_memory)
        quantisation.watch.begin(segments());
      else
        quantisation.begin(where, segments());
    }
  }

  D device_;
  node_of<Root, kit, Input> root_;
  std::size_t image_size_, largest_;
  activations<D> store_;
  int samples_ = 0;
  bool trained_ = false;
  score score_;
  const number* logits_ = nullptr;
  buffer<number, D> input_, slope_;
  buffer<score_sums, D> sums_;
  buffer<number, D> workspace_;
  buffer<double, D> scratch_;
  gradient_buffers<number, D> gradients_;
};

}  // namespace cordee::inline CORDEE_ABI
