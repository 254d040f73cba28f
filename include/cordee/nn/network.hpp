// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network made of layers, a model that the trainer can train.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/nn/batch_check.hpp>
#include <cordee/nn/batch_norm_settings.hpp>
#include <cordee/nn/capture_key.hpp>
#include <cordee/nn/cross_entropy.hpp>
#include <cordee/nn/frozen_flags.hpp>
#include <cordee/nn/largest_batch.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/loss.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/parameter_packing.hpp>
#include <cordee/nn/sample_gradients.hpp>
#include <cordee/ops/cpu/loss.hpp>

namespace cordee::inline CORDEE_ABI {

/// The layer `Root` from images of extent Input to the logits of `Classes` classes.
template <Layer Root, Precision P, Device D, class Engine, extent Input, int Classes,
          Loss L = cross_entropy>
class network
    : public detail::nn::network_facts<detail::nn::parameter_table<Root, Input, Quantized<P>>>,
      public detail::nn::batch_norm_settings {
  static_assert(
      detail::nn::computes_in<P, D>,
      "layers on the CPU compute on numbers of the masters' type, or on 16-bit storage with "
      "float masters: use fp64, fp32, bf16, fp16 or int8");
  static_assert(Root::out(Input) == extent{Classes, 1, 1},
                "a network ends in one number for each class: end it in linear<classes>");
  static_assert(Input.channels <= 4, "an image of bytes has at most four channels");
  static_assert(
      detail::nn::offloads_whole_blocks<detail::nn::parameter_table<Root, Input, Quantized<P>>>());

  using layer_backend = detail::nn::backend<P, D, Engine>;
  using table = detail::nn::parameter_table<Root, Input, Quantized<P>>;
  using facts = detail::nn::network_facts<table>;
  using number = typename layer_backend::number;
  using real = typename P::master;
  using stream = typename D::stream;
  using plane_part = detail::device::plane_part<real, D>;
  static constexpr bool by_block = !D::host_memory && table::totals.offloaded_blocks > 0;
  using packed_memory = detail::nn::packed_memory<D, by_block>;
  static constexpr std::size_t largest_end =
      std::max(layer_backend::numbers(Input), layer_backend::numbers(Root::out(Input)));
  using images = detail::nn::image_layout<Root, layer_backend, Input>;
  static constexpr bool moves_activations = !D::host_memory && table::totals.activation_blocks > 0;

 public:
  using precision = P;                                     ///< See Model.
  using device = D;                                        ///< See Model.
  using engine = Engine;                                   ///< Convolution engine.
  using packed_parameters = typename packed_memory::type;  ///< See Model.
  /// The same network with a loss of another type.
  template <Loss Other>
  using with_loss = network<Root, P, D, Engine, Input, Classes, Other>;

  static constexpr extent input = Input;   ///< See Model.
  static constexpr int classes = Classes;  ///< See Model.
  /// Whether backward accepts a part of a plane that has all segments that are not frozen.
  static constexpr bool skips_frozen_gradients =
      detail::nn::SkipsFrozenGradients<detail::nn::node_of<Root, layer_backend, Input>>;
  using facts::plane_size, facts::segments, facts::tensors;

  /// Loss with its options, which the trainer's constructor checks.
  L loss{};
  /// Probability that dropout zeroes a number in training. Range: 0 <= dropout_rate < 1, and 0
  /// without a dropout layer, else usage_error.
  double dropout_rate = 0;
  /// Options of int8's ranges and what passes observe; empty for other precisions.
  detail::nn::quantization_of<P, D> quantization;

  /// Binds the layers to a device. Weights are in planes, which are passed to each call.
  explicit network(D target = D{}) : network(target, layout_builder{segments(), 0, tensors(), 0}) {}

  [[nodiscard]] const D& get_device() const { return device_; }  ///< See Model.

  /// Throws usage_error for meaningless members.
  [[gnu::cold]] void check() const {
    if constexpr (requires { quantization.check(); }) quantization.check();
    if constexpr (requires { loss.check(); }) loss.check();
    check_batch_norms(D::host_memory);
    expects(dropout_rate >= 0 && dropout_rate < 1, "network: .dropout_rate is within 0 .. 1");
    expects(dropout_rate == 0 || dropouts_ > 0,
            "network: .dropout_rate needs a dropout layer: resnet_options{.dropout = true}, or "
            "dropout before linear");
  }
  /// From now on passes leave these trainable segments unchanged, and batch norms among them
  /// normalize by their running statistics. Empty: none; otherwise one flag each. Backward ends at
  /// the first segment that is not frozen.
  [[gnu::cold]] void freeze(std::span<const std::uint8_t> frozen) {
    frozen_.set(frozen, tensors());
  }

  /// Writes the initial weights, which depend only on the seed.
  void initialize(span_on<real, D> plane, std::uint64_t seed) const {
    expects(plane.size >= plane_size(), "network: the plane is smaller than the network's table");
    const detail::core::pod_vector<real> initial =
        detail::nn::draw_weights<real>(segments(), table::initializers, plane_size(), seed);
    const stream s{};
    device_.copy(plane.data, initial.data(), plane_size() * sizeof(real), s);
    device_.finish(s);
  }

  /// Allocates memory for pack_parameters.
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(device_, packed_size_);
  }

  /// Converts master weights to the form that kernels read.
  [[gnu::cold]] void pack_parameters(span_on<const real, D> plane, packed_parameters& out,
                                     stream s) const {
    expects(plane.size >= plane_size(), "network: the plane is smaller than the network's table");
    expects(out.size() >= packed_size_,
            "network: the packed parameters are not from make_packed_parameters");
    if constexpr (layer_backend::packs_by_table)
      packing_.pack(plane.data, out.span().data, s);
    else
      root_.pack_parameters(pack_pass<layer_backend>{plane.data, out.span().data, device_, s});
  }

  /// See Model. Out of line, since inlining it into the step lengthens compilation.
  [[gnu::noinline]] void forward(const packed_parameters& in, span_on<real, D> plane,
                                 const batch<D>& b, phase p, stream s) {
    expects(plane.size >= plane_size(), "network: the plane is smaller than the network's table");
    expects(in.size() >= packed_size_,
            "network: the packed parameters are not from make_packed_parameters");
    detail::nn::check_batch(b, Input.size(), p);
    run_pass(s, b.count, [&] { run_forward(in, plane, b, p, s); });
  }

  /// Computes the gradients of the last forward pass; see Model.
  /// @throws usage_error unless it was in training, or if the plane is smaller than the table.
  template <class Ready>
  void backward(const packed_parameters& in, plane_part gradients, write_mode mode, Ready&& ready,
                stream s) {
    run_backward(in, gradients, mode, ready, s, nullptr);
  }
  /// As backward, but convolutions' gradients stay packed until unpack_gradients, which unpacks
  /// many layers in one launch.
  template <class Ready>
    requires layer_backend::packs_gradients
  void backward_packed(const packed_parameters& in, plane_part gradients, write_mode mode,
                       Ready&& ready, stream s) {
    run_backward(in, gradients, mode, ready, s, packing_.gradients());
  }
  /// gradient <- factor (gradient + packed gradient) in `count` segments from `first` on, without
  /// the first term if `mode` is overwrite. A null factor, which is in device memory, is 1.
  void unpack_gradients(plane_part gradients, std::size_t first, std::size_t count, write_mode mode,
                        const float* factor, stream s)
    requires layer_backend::packs_gradients
  {
    packing_.unpack(gradients.origin(), first, count, mode, factor, s);
  }

  /// How parameters are packed, for updates that pack some of them.
  [[nodiscard]] const auto& packing() const { return packing_; }

  /// Metrics of the last forward pass. Blocks the host on a GPU. Throws error if a label is out of
  /// range.
  [[nodiscard]] metrics read_metrics(stream s) const {
    if constexpr (D::host_memory) {
      return metrics_of(*metrics_.span().data);
    } else {
      detail::ops::metric_sums sums;
      device_.copy(&sums, metrics_.span().data, sizeof(sums), s);
      device_.finish(s);
      if constexpr (Quantized<P>)
        if (!trained_) quantization.expect_ranges(device_, s);
      return metrics_of(sums);
    }
  }
  /// Metrics of the last forward pass, and what they mean: throws error if a label is out of range.
  [[nodiscard]] span_on<const detail::ops::metric_sums, D> device_metrics() const {
    return metrics_.span();
  }
  /// Converts sums of device_metrics to metrics.
  /// @throws error if a label is out of range.
  [[nodiscard]] metrics metrics_of(const detail::ops::metric_sums& sums) const {
    return detail::ops::checked_metrics(sums, Classes);
  }
  using capture_key = detail::nn::capture_key<L>;  ///< What a captured pass depends on.
  /// Empty if the host takes part in a pass, which then cannot be captured.
  [[nodiscard]] std::optional<capture_key> captured_arguments(const batch<D>& b) const {
    if (batch_norm_allreduce.blocks_host()) return {};
    bool counts_numbers = false;
    if constexpr (Quantized<P>) counts_numbers = quantization.percentile < 100;
    return capture_key{held_bytes() + held_workspace(), loss, dropout_rate,
                       b.epoch >= freeze_batch_norm_at, counts_numbers};
  }
  /// Frees the memory of passes; the next pass allocates it again, at another address. Not for a
  /// model whose steps a trainer has captured.
  [[gnu::cold]] void release_activations() {
    saved_.release_all();
    offload_.release();
    input_ = {device_, 0};
    loss_gradient_ = {device_, 0};
    workspace_ = {device_, 0};
    scratch_ = {device_, 0};
    packing_.release_gradients();
    logits_ = nullptr;
    samples_ = 0, trained_ = false;
  }
  /// Bytes of the packed parameters.
  [[nodiscard]] std::size_t packed_bytes() const { return packed_size_; }
  /// Least memory of a training pass per sample: activations and their gradients.
  [[nodiscard]] std::size_t bytes_per_sample() const { return pass_.of_sample(); }
  /// Memory of a pass, as noted by the layers.
  [[nodiscard]] const detail::nn::pass_layout& pass_layout() const { return pass_; }
  /// Same; a trainer notes its price on the host in it.
  [[nodiscard]] detail::nn::pass_layout& pass_layout() { return pass_; }
  /// What a training pass of so many samples allocates, with backward_packed if the network has it.
  [[nodiscard, gnu::cold]] detail::nn::pass_memory memory_of_pass(int samples,
                                                                  bool stays_packed = true) const
    requires(!Quantized<P>)
  {
    return detail::nn::memory_of_pass<layer_backend>(
        pass_, samples, sizeof(detail::ops::metric_sums) + packing_.table_bytes(), stays_packed);
  }
  /// Where weights by block (offload_weights) are, and what a pass uploads; for logs.
  [[nodiscard]] std::string describe_offload() const
    requires(table::totals.offloaded_blocks > 0)
  {
    if constexpr (by_block)
      return slots_.describe(packed_size_);
    else
      return "weights by block: nothing is moved on the CPU, whose weights are in host memory";
  }
  /// Where offloaded activations (offload_activations) are, and what a pass copies; for logs.
  [[nodiscard]] std::string describe_activations() const
    requires(table::totals.activation_blocks > 0)
  {
    return offload_.describe();
  }
  /// Logits (samples, classes) of the last forward pass.
  [[nodiscard]] span_on<const number, D> logits() const {
    return {logits_, static_cast<std::size_t>(samples_) * Classes};
  }

 protected:
  template <class F>
  void run_pass(stream s, int samples, const F& f) {
    detail::nn::run_in_memory(
        device_, s, pass_, samples, f, [&] { return held_bytes(); },
        [&](auto n) { return detail::nn::missing_of(*this, n, held_workspace()); });
  }
  void run_forward(const packed_parameters& in, span_on<real, D> plane, const batch<D>& b, phase p,
                   stream s) {
    const auto samples = static_cast<std::size_t>(b.count);
    input_.reserve(samples * images::numbers);
    loss_gradient_.reserve(samples * Classes);
    saved_.begin_forward(samples, pass_.arena(samples));
    images::normalize(b, input_.span().data, s);
    forward_pass<layer_backend> pass{in.span().data,       plane.data, b.count,   p,
                                     batch_norm_allreduce, &saved_,    &scratch_, s};
    pass.frozen_statistics = b.epoch >= freeze_batch_norm_at;
    pass.moving_average = batch_norm_moving_average;
    pass.frozen = frozen_.data();
    if (p == phase::train) pass.dropout = {dropout_rate, b.seed, b.first_sample, b.info.data};
    if constexpr (Quantized<P>) pass.quantization = &quantization;
    if constexpr (by_block) {
      pass.slots = slots_.get();
      pass.slots->begin_forward(pass.packed, s);
    }
    offload_.begin_forward(pass, samples, s);
    logits_ = root_.forward(pass, input_.span().data);
    if constexpr (by_block) pass.slots->end(s);
    samples_ = b.count;
    trained_ = p == phase::train, differentiated_ = false;
    const L phase_loss = detail::nn::loss_of(loss, trained_);
    const double weight = trained_ ? b.loss_weight() : 1;
    number* const loss_gradient = trained_ ? loss_gradient_.span().data : nullptr;  // null: none
    const auto targets = detail::ops::targets_of(b);
    // for a GPU by argument-dependent lookup: ops/gpu/loss.hpp
    if constexpr (D::host_memory)
      *metrics_.span().data =
          batch_loss(phase_loss, Classes, b.count, logits_, targets, weight, loss_gradient, s);
    else
      batch_loss(phase_loss, Classes, b.count, logits_, targets,
                 b.device_loss_scale.empty() ? weight : b.unscaled_loss_weight(),
                 b.device_loss_scale.data, loss_gradient, metrics_.span().data, s);
  }
  template <class Ready>
  const number* run_backward(const packed_parameters& in, plane_part gradients, write_mode mode,
                             Ready&& ready, stream s, std::byte* packed_gradients,
                             const std::uint8_t* all_frozen = nullptr) {
    expects(trained_, "network: backward requires a preceding forward with phase::train");
    expects(!differentiated_,
            "network: a second backward pass of one forward pass: call forward again");
    expects(gradients.numbers.size >= plane_size() || frozen_.covers(segments(), gradients),
            "network: the plane is smaller than the network's table");
    const number* dx = nullptr;
    run_pass(s, samples_, [&] {
      const auto samples = static_cast<std::size_t>(samples_);
      differentiated_ = true;
      saved_.begin_backward(logits_, samples * Classes * sizeof(number));
      detail::nn::gradient_buffers<number, D> free(saved_, samples * largest_activation_);
      const std::size_t first = frozen_.first_unfrozen();
      bool complete = false;
      const auto note_ready = detail::nn::with_observer_of(
          ready, [&](std::size_t k) { ready(k), complete = k <= first; });
      backward_pass<layer_backend> pass{
          in.span().data, gradients.origin(), mode,        samples_, batch_norm_allreduce,
          &free,          &scratch_,          &workspace_, s,        packed_gradients};
      pass.frozen = all_frozen != nullptr ? all_frozen : frozen_.data();
      pass.places = gradients.places;
      if (first > 0 && all_frozen == nullptr) pass.complete = &complete;
      pass.saved = &saved_;
      number* dy = free.acquire(samples * Classes);
      device_.copy(dy, loss_gradient_.span().data, samples * Classes * sizeof(number), s);
      if constexpr (by_block) {
        pass.slots = slots_.get();
        pass.slots->begin_backward(pass.packed, s);
      }
      offload_.begin_backward(pass);
      dx = root_.backward(pass, dy, {.needed = all_frozen != nullptr}, note_ready);
      offload_.end_backward(s);
      if constexpr (by_block) pass.slots->end(s);
    });
    return dx;
  }

 private:
  [[nodiscard]] std::size_t held_workspace() const {
    return packing_.bytes() + packing_.table_bytes() + workspace_.size() * sizeof(number);
  }
  // Memory of the samples of the largest pass so far; bytes_per_sample of each, at least.
  [[nodiscard]] std::size_t held_bytes() const {
    return offload_.bytes() + saved_.bytes() +
           (input_.size() + loss_gradient_.size()) * sizeof(number);
  }

  [[gnu::cold]] network(const D& target, layout_builder&& layout)
      : device_(target),
        root_(Root::template bind<layer_backend, Input>(images::begin(layout))),
        packed_size_(layout.packed_size),
        dropouts_(layout.dropouts),
        largest_activation_(std::max(layout.largest_activation, largest_end)),
        pass_(layout.take_pass(sizeof(number) * (images::numbers + Classes))),
        saved_(target, layout.activations, layout.planned.span(), layout.kept,
               layout.recomputed.most),
        input_(target, 0),
        loss_gradient_(target, 0),
        metrics_(target, 1),
        workspace_(target, 0),
        scratch_(target, 0),
        slots_(target, layout),
        offload_(target, layout),
        packing_(target, layout) {
    has_ghost_batches = layout.has_ghost_batches;
    one_pixel_scales = std::move(layout.one_pixel_scales);
    pass_.bind<layer_backend>(images::numbers + Classes, packed_size_);
    if constexpr (by_block) pass_.packed_on_device = slots_.get()->bytes();
    if constexpr (Quantized<P>) quantization.add_layers(target, segments());
  }

  D device_;
  detail::nn::node_of<Root, layer_backend, Input> root_;
  std::size_t packed_size_, dropouts_, largest_activation_;
  detail::nn::pass_layout pass_;
  detail::nn::frozen_flags frozen_;
  detail::nn::activations<D> saved_;
  int samples_ = 0;
  bool trained_ = false, differentiated_ = false;  // the last pass
  const number* logits_ = nullptr;
  buffer<number, D> input_, loss_gradient_;
  buffer<detail::ops::metric_sums, D> metrics_;
  buffer<number, D> workspace_;
  buffer<double, D> scratch_;
  [[no_unique_address]] typename packed_memory::slots slots_;
  [[no_unique_address]] typename detail::nn::activation_memory<D, moves_activations>::type offload_;
  detail::nn::parameter_packing<layer_backend> packing_;
};

}  // namespace cordee::inline CORDEE_ABI
