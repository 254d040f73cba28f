// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Training on images and on adversarial copies of them: ConAdv (Liu et al., 2021, "Concurrent
// Adversarial Learning for Large-Batch Training"), with the two batch norms of AdvProp (Xie et al.,
// 2020). In grey levels, of an image x with label y:
//
//   y' = (y + U{1 .. classes - 1}) mod classes                          the target class
//   x' = x + U{-epsilon .. epsilon} with probability random_start, else x     one coin for an update
//   x' <- clip(x' - step sign(d loss(x', y'; v) / d x'), x - epsilon, x + epsilon)   `steps` times
//   loss = (loss(x, y; w) + loss(x', y; w')) / 2
//
// x' stays within 0 .. 255. v are the weights of the step before (`stale`), so that x' does not
// wait for the update, or w' (DisAdv). w' has the weights of w, and scales, shifts and running
// statistics of its own in its batch norms: "adversarial.bn1.weight" and so on. v and x' use those.
// Evaluation uses w alone.
//
// A step costs that of twice the images, and the forward pass and input gradient of `steps` times
// the images. v is not saved: the first step after a resume, and after an evaluation of averaged
// weights, has v = w'. Metrics are those of the images themselves. Not written for GPUs yet.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/nn/adversarial_image.hpp>
#include <cordee/nn/adversarial_table.hpp>
#include <cordee/nn/model.hpp>

namespace cordee::inline CORDEE_ABI {

struct adversarial_options {
  int epsilon = 9;            // grey levels of 0 .. 255
  int step_size = 9;          // of a step, in grey levels; at least epsilon / steps is used
  int steps = 1;              // of the attack
  double random_start = 0.8;  // the probability
  bool stale = true;          // whether the attack uses the weights of the step before

  /// Throws usage_error.
  [[gnu::cold]] void check() const {
    expects(epsilon > 0 && epsilon <= 255, "adversarial: .epsilon is within 1 .. 255 grey levels");
    expects(step_size > 0 && step_size <= 255,
            "adversarial: .step_size is within 1 .. 255 grey levels");
    expects(steps > 0, "adversarial: .steps is a number of steps of the attack, 1 or more");
    expects(random_start >= 0 && random_start <= 1,
            "adversarial: .random_start is a probability, within 0 .. 1");
  }
  [[nodiscard]] int used_step_size() const { return std::max(step_size, epsilon / steps); }
};

namespace detail::nn {

/// A network that also computes the gradient of its input.
template <class Net>
class input_gradient_network : public Net {
 public:
  using Net::Net;

  /// The gradient of the last forward's loss by the normalized images, as the engine lays out its
  /// input, until the next pass. Computes no gradient of weights; batch norms write theirs to
  /// `scratch`, a plane.
  auto input_gradient(const typename Net::packed_parameters& in, auto scratch,
                      typename Net::device::stream s) {
    static constexpr auto all_frozen = [] {
      std::array<std::uint8_t, Net::tensors()> flags{};
      flags.fill(1);
      return flags;
    }();
    return this->run_backward(
        in, scratch, write_mode::add, [](std::size_t) {}, s, nullptr, all_frozen.data());
  }
};

}  // namespace detail::nn

/// `Net`, a network with batch norms, trained on images and on adversarial copies of them.
template <class Net>
class adversarial {
  using table = detail::nn::adversarial_table<Net>;
  using real = typename Net::precision::master;
  using D = typename Net::device;
  using stream = typename D::stream;

  static_assert(D::host_memory, "adversarial is not written for GPUs yet: use cpu");
  static_assert(!Quantized<typename Net::precision>,
                "adversarial needs the gradient of its images, which int8 does not compute: train "
                "in fp32 or bf16");
  static_assert(table::norms > 0, "adversarial has two sets of batch norms: the network has none");

 public:
  using precision = typename Net::precision;
  using device = D;
  using engine = typename Net::engine;
  struct packed_parameters {
    typename Net::packed_parameters clean, auxiliary, stale;
    mutable buffer<real, D>
        scratch;  // a plane of the network, in which passes leave what they like
    bool is_packed = false;
  };

  static constexpr extent input = Net::input;
  static constexpr int classes = Net::classes;
  static constexpr std::span<const segment> segments() { return table::segments; }
  /// Trainable segments.
  static constexpr std::size_t tensors() { return table::trainable + table::norms; }
  static constexpr std::size_t plane_size() { return table::plane_size; }

  adversarial_options options{};

  explicit adversarial(D target = D{}) : adversarial(adversarial_options{}, target) {}
  explicit adversarial(const adversarial_options& given, D target = D{})
      : options(given),
        clean_(target),
        auxiliary_(target),
        images_(target, 0),
        labels_(target, 0) {}

  [[nodiscard]] const D& get_device() const { return clean_.get_device(); }
  /// The network that is evaluated.
  [[nodiscard]] Net& evaluated() { return clean_; }

  [[gnu::cold]] void check() const {
    options.check();
    clean_.check();
  }
  /// Both sets of batch norms begin alike.
  void initialize(span_on<real, D> plane, std::uint64_t seed) const {
    buffer<real, D> initial(get_device(), Net::plane_size());
    clean_.initialize(initial.span(), seed);
    const real* const from = initial.span().data;
    std::copy_n(from, table::trainable_end, plane.data);
    for_each_norm([&](const segment& s, std::size_t second) {
      std::copy_n(from + s.offset, s.size, plane.data + second);
    });
    for (const std::size_t shift : {table::statistics_shift, table::adversarial_shift})
      std::copy_n(from + table::trainable_end, table::statistics_size,
                  plane.data + table::trainable_end + shift);
  }

  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return {clean_.make_packed_parameters(), clean_.make_packed_parameters(),
            clean_.make_packed_parameters(), buffer<real, D>(get_device(), Net::plane_size())};
  }
  /// Those of the call before become the stale ones, unless they are packed anew (nn/model.hpp).
  void pack_parameters(span_on<const real, D> plane, packed_parameters& out, stream s) const {
    clean_.pack_parameters(plane, out.clean, s);
    real* const both = out.scratch.span().data;
    std::copy_n(plane.data, table::trainable_end, both);
    for_each_norm([&](const segment& norm, std::size_t second) {
      std::copy_n(plane.data + second, norm.size, both + norm.offset);
    });
    std::swap(out.stale, out.auxiliary);
    clean_.pack_parameters(span_on<const real, D>{both, Net::plane_size()}, out.auxiliary, s);
    if (!std::exchange(out.is_packed, true))
      clean_.pack_parameters(span_on<const real, D>{both, Net::plane_size()}, out.stale, s);
  }

  /// In training, of the images and of their adversarial copies, which it makes.
  void forward(const packed_parameters& in, span_on<real, D> plane, const batch<D>& b, phase p,
               stream s) {
    expects(plane.size >= plane_size(), "adversarial: the plane is smaller than the table");
    const auto clean_plane = plane.subspan(table::statistics_shift, Net::plane_size());
    if (p != phase::train) return clean_.forward(in.clean, clean_plane, b, p, s);
    batch<D> half = b;
    half.global_samples *= 2;
    clean_.forward(in.clean, clean_plane, half, p, s);
    if (b.count > 0) attack(in, b, s);
    half.pixels = images_.span().subspan(0, b.pixels.size);
    auxiliary_.forward(in.auxiliary, plane.subspan(table::adversarial_shift, Net::plane_size()),
                       half, p, s);
  }
  /// First that of the adversarial images, whose batch norms' gradients move to their own segments.
  template <class Ready>
  void backward(const packed_parameters& in, span_on<real, D> gradients, write_mode mode,
                Ready&& ready, stream s) {
    expects(gradients.size >= plane_size(), "adversarial: the plane is smaller than the table");
    const auto shared = gradients.subspan(0, Net::plane_size());
    // In memory that the network does not touch: `mode` is add in every micro-batch on the CPU.
    std::vector<real> before;
    for_each_norm([&](const segment& norm, std::size_t) {
      real* const g = gradients.data + norm.offset;
      before.insert(before.end(), g, g + norm.size);
      std::fill_n(g, norm.size, real{});
    });
    auxiliary_.backward(
        in.auxiliary, shared, mode, [](std::size_t) {}, s);
    const real* saved = before.data();
    for_each_norm([&](const segment& norm, std::size_t second) {
      real* const g = gradients.data + norm.offset;
      for (std::size_t i = 0; i < norm.size; ++i) {
        real& moved = gradients[second + i];
        moved = mode == write_mode::add ? moved + g[i] : g[i];
        g[i] = mode == write_mode::add ? saved[i] : real{};
      }
      saved += norm.size;
    });
    for (std::size_t k = tensors(); k-- > table::trainable;) ready(k);
    clean_.backward(
        in.clean, shared, write_mode::add, [&](std::size_t k) { ready(k); }, s);
  }

  /// Of the images themselves.
  [[nodiscard]] metrics read_metrics(stream s) const { return clean_.read_metrics(s); }
  [[nodiscard]] std::size_t bytes_per_sample() const {
    return clean_.bytes_per_sample() + auxiliary_.bytes_per_sample() + input.size();
  }
  [[nodiscard]] auto logits() const { return clean_.logits(); }
  /// (samples, channels, height, width) of the last forward pass in training.
  [[nodiscard]] span_on<const std::uint8_t, D> adversarial_images() const { return images_.span(); }
  [[nodiscard]] std::string describe() const {
    return concat("and on images within ", options.epsilon, " of 255 grey levels, ", options.steps,
                  options.steps == 1 ? " step of " : " steps of ", options.used_step_size(),
                  options.stale ? ", of the weights of the step before" : "");
  }

 private:
  /// f(segment, where its second one begins) of each scale and shift.
  template <class F>
  static void for_each_norm(const F& f) {
    std::size_t second = table::trainable;
    for (const segment& s : segments().first(table::trainable))
      if (detail::nn::is_batch_norm(s)) f(s, segments()[second++].offset);
  }

  // images_ <- the adversarial copies.
  void attack(const packed_parameters& in, const batch<D>& b, stream s) {
    const std::uint64_t step = b.info.empty() ? 0 : static_cast<std::uint64_t>(b.info[0].step);
    images_.reserve(b.pixels.size);
    labels_.reserve(b.labels.size);
    std::uint8_t* const x = images_.span().data;
    random_sequence coin(b.seed, purpose::adversary, step, ~std::uint64_t{0});
    if (coin.uniform() < options.random_start)
      detail::nn::add_uniform_noise(input, b.count, b.pixels.data, options.epsilon, b.seed, step,
                                    b.first_sample, x);
    else
      std::copy_n(b.pixels.data, b.pixels.size, x);
    const std::span<const std::int32_t> labels(b.labels.data,
                                               b.labels.size);  // nvcc: not in braces
    detail::nn::draw_target_classes(classes, labels, b.seed, step, b.first_sample,
                                    labels_.span().data);
    batch<D> targeted = b;
    targeted.pixels = images_.span().subspan(0, b.pixels.size);
    targeted.labels = labels_.span().subspan(0, b.labels.size);
    targeted.other_labels = {};
    targeted.label_weights = {};
    const auto& weights = options.stale ? in.stale : in.auxiliary;
    for (int k = 0; k < options.steps; ++k) {
      auxiliary_.forward(weights, in.scratch.span(), targeted, phase::train, s);
      const auto* const gradient = auxiliary_.input_gradient(weights, in.scratch.span(), s);
      using number = std::remove_cvref_t<decltype(*gradient)>;
      detail::nn::attack_bytes<engine::template block<number>(input.channels)>(
          input, b.count, gradient, b.pixels.data, options.epsilon, options.used_step_size(), x);
    }
  }

  Net clean_;
  detail::nn::input_gradient_network<Net> auxiliary_;
  buffer<std::uint8_t, D> images_;
  buffer<std::int32_t, D> labels_;
};

}  // namespace cordee::inline CORDEE_ABI
