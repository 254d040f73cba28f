// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Training on images and on adversarial copies of them: ConAdv (Liu et al., 2021, "Concurrent
// Adversarial Learning for Large-Batch Training"), with the two batch norms of AdvProp (Xie et al.,
// 2020). In grey levels, of an image x with label y:
//
//   y' = (y + U{1 .. classes - 1}) mod classes                          the target class
//   x' = x + U{-epsilon .. epsilon} with probability random_start, else x    one coin for an update
//   x' <- clip(x' - step sign(d loss(x', y'; v) / d x'), x - epsilon, x + epsilon)   `steps` times
//   loss = (loss(x, y; w) + loss(x', y; w')) / 2
//
// x' stays within 0 .. 255. v are the previous step's weights (`stale`), or w' (DisAdv). w' shares
// the weights of w, but its batch norms have separate scales, shifts and running statistics:
// "adversarial.bn1.weight" and so on. v and x' use those. Evaluation uses only w.
//
// With v, a thread makes x' of the next step's images during the whole previous step, whose weights
// v are (adversary.hpp): `fit` passes it the images, other loops call `run.look_ahead(batches)`.
// Without, and with w', the step first makes x'. A step costs that of twice the images; x' costs
// the forward pass and input gradient of `steps` times the images, which idle processors hide. v is
// part of run_state: a resumed run has the bits of the uninterrupted one. The thread has its own
// activations and weights. Metrics are those of the clean images. Not implemented for GPUs yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/nn/adversarial_table.hpp>
#include <cordee/nn/adversary.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/ops/batch_norm_problem.hpp>

namespace cordee::inline CORDEE_ABI {

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
  using precision = typename Net::precision;  ///< See Model.
  using device = D;                           ///< See Model.
  using engine = typename Net::engine;        ///< Convolution engine of both networks.
  /// Versions are counted: the auxiliary weights of version k, those of w', are in element k % 2;
  /// the other element holds the previous version.
  struct packed_parameters {
    typename Net::packed_parameters clean;                     ///< Weights w.
    std::array<typename Net::packed_parameters, 2> auxiliary;  ///< Weights w' and v, by version.
    std::array<buffer<real, D>, 2> masters;  ///< Planes of `Net` that `auxiliary` is packed from.
    std::int64_t version = 0;                ///< Grows by 1 on pack_parameters, by 2 on restore.
    /// The thread that makes the copies. Declared last, since it reads the others.
    detail::core::owned_ptr<detail::nn::adversary<Net>> adversary;
  };

  /// Makes `kfac` reject the network, since it does not observe copies.
  static constexpr bool adversarial_copies = true;
  static constexpr extent input = Net::input;   ///< See Model.
  static constexpr int classes = Net::classes;  ///< See Model.
  /// Returns the network's segments and those of the auxiliary batch norms, whose names begin with
  /// "adversarial.".
  static constexpr std::span<const segment> segments() { return table::segments; }
  /// Whether evaluation uses the segment: whether it is the network's own.
  static constexpr bool is_evaluated(const segment& s) {
    return !s.name.starts_with("adversarial.");
  }
  /// Number of trainable segments.
  static constexpr std::size_t tensors() { return table::trainable + table::norms; }
  /// Returns the size of a plane in numbers, with both sets of batch norms.
  static constexpr std::size_t plane_size() { return table::plane_size; }

  /// Options of the attack (nn/adversary.hpp). The trainer's constructor checks them.
  detail::nn::adversarial_options options{};

  /// Binds both networks to a device, with the default options.
  explicit adversarial(D target = D{}) : adversarial({}, target) {}
  /// Binds both networks to a device.
  explicit adversarial(const detail::nn::adversarial_options& given, D target = D{})
      : options(given), clean_(target), auxiliary_(target) {}

  [[nodiscard]] const D& get_device() const { return clean_.get_device(); }  ///< See Model.
  /// The network used in evaluation.
  [[nodiscard]] const Net& evaluated() const { return clean_; }

  /// Checks the options of the attack and the network's.
  /// @throws usage_error for one out of its range.
  [[gnu::cold]] void check() const {
    options.check();
    clean_.check();
  }
  /// Sums each set of batch norms over ranks; the attack normalizes by its own rank's images.
  void share_statistics(const detail::ops::statistics_allreduce& allreduce) {
    clean_.share_statistics(allreduce);
    auxiliary_.share_statistics(allreduce);
  }
  /// Initializes both sets of batch norms alike.
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

  /// Allocates packed parameters of both networks, and the thread's network.
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    const auto plane = [&] { return buffer<real, D>(get_device(), Net::plane_size()); };
    return {clean_.make_packed_parameters(),
            {clean_.make_packed_parameters(), clean_.make_packed_parameters()},
            {plane(), plane()},
            0,
            detail::core::owned_ptr<detail::nn::adversary<Net>>::make(get_device())};
  }
  /// Packs the weights after a step; those of the previous call become the stale ones.
  void pack_parameters(span_on<const real, D> plane, packed_parameters& out, stream s) const {
    const bool is_first = out.version++ == 0;
    pack_anew(plane, out, s);
    if (is_first) restore(out, {}, s);
  }
  /// Packs weights unrelated to the previous ones (nn/model.hpp). The stale ones remain.
  void pack_anew(span_on<const real, D> plane, packed_parameters& out, stream s) const {
    clean_.pack_parameters(plane, out.clean, s);
    real* const both = out.masters[index(out.version)].span().data;
    std::copy_n(plane.data, table::trainable_end, both);
    for_each_norm([&](const segment& norm, std::size_t second) {
      std::copy_n(plane.data + second, norm.size, both + norm.offset);
    });
    pack_auxiliary(out, index(out.version), s);
  }
  /// The stale weights, without parts used only in evaluation.
  [[nodiscard]] std::vector<double> state(const packed_parameters& packed) const {
    const real* const stale = packed.masters[index(packed.version + 1)].span().data;
    if (!options.stale) return {};
    return {stale, stale + table::trainable_end};
  }
  /// Restores the stale weights; without numbers, sets them to the current ones.
  [[gnu::cold]] void restore(packed_parameters& out, std::span<const double> numbers,
                             stream s) const {
    expects(numbers.empty() || numbers.size() == table::trainable_end,
            "adversarial: the saved weights of the step before are of another network");
    const std::size_t stale = index(out.version + 1);
    real* const to = out.masters[stale].span().data;
    if (numbers.empty())
      std::copy_n(out.masters[1 - stale].span().data, table::trainable_end, to);
    else
      std::transform(numbers.begin(), numbers.end(), to,
                     [](double x) { return static_cast<real>(x); });
    pack_auxiliary(out, stale, s);
    out.version += 2;  // what the adversary has begun is of other weights
  }
  /// Begins copies of the next step's images in parallel with this step.
  void look_ahead(const packed_parameters& in, std::span<const batch<D>> next, std::uint64_t seed,
                  std::int64_t step) {
    if (options.stale) in.adversary->begin(options, weights_of(in, in.version), next, seed, step);
  }

  /// Forward pass; in training, on the images and on their adversarial copies.
  void forward(const packed_parameters& in, span_on<real, D> plane, const batch<D>& b, phase p,
               stream s) {
    expects(plane.size >= plane_size(), "adversarial: the plane is smaller than the table");
    const auto clean_plane = plane.subspan(table::statistics_shift, Net::plane_size());
    if (p != phase::train) return clean_.forward(in.clean, clean_plane, b, p, s);
    batch<D> half = b;
    half.global_samples *= 2;
    clean_.forward(in.clean, clean_plane, half, p, s);
    const auto attacked = weights_of(in, in.version - (options.stale ? 1 : 0));
    const auto copies = in.adversary->copies_of(options, attacked, b);
    half.pixels = copies_ = {copies.data(), copies.size()};
    auxiliary_.forward(in.auxiliary[index(in.version)],
                       plane.subspan(table::adversarial_shift, Net::plane_size()), half, p, s);
  }
  /// Runs backward on the adversarial images first, and moves their batch norms' gradients to their
  /// own segments.
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
        in.auxiliary[index(in.version)], shared, mode, [](std::size_t) {}, s);
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

  /// Metrics of the clean images.
  [[nodiscard]] metrics read_metrics(stream s) const { return clean_.read_metrics(s); }
  /// Returns the least memory of a training step per image, in bytes, including the copies and the
  /// thread's activations.
  [[nodiscard]] std::size_t bytes_per_sample() const {
    return clean_.bytes_per_sample() + 2 * auxiliary_.bytes_per_sample() + 6 * input.size();
  }
  /// Returns the logits of the clean images.
  [[nodiscard]] auto logits() const { return clean_.logits(); }
  /// Adversarial images (samples, channels, height, width) of the last training forward pass.
  [[nodiscard]] span_on<const std::uint8_t, D> adversarial_images() const { return copies_; }
  /// One line for logs.
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

  static std::size_t index(std::int64_t packing) { return static_cast<std::size_t>(packing % 2); }
  static detail::nn::attack_weights<Net> weights_of(const packed_parameters& in,
                                                    std::int64_t packing) {
    return {&in.auxiliary[index(packing)], packing};
  }
  void pack_auxiliary(packed_parameters& out, std::size_t k, stream s) const {
    out.adversary->finish(out.auxiliary[k]);
    clean_.pack_parameters(out.masters[k].span(), out.auxiliary[k], s);
  }

  Net clean_, auxiliary_;
  span_on<const std::uint8_t, D> copies_{};
};

}  // namespace cordee::inline CORDEE_ABI
