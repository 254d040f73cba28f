// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharpness-aware minimization: the gradient is taken where the loss is highest nearby.
//
//   SAM (Foret et al. 2021)    e = radius g / |g|            g: the gradient at w
//   ASAM (Kwon et al. 2021)    e = radius T^2 g / |T g|      T = |w| + eta in weights and scales,
//                                                            1 elsewhere
//   a step has                 h = the gradient at w + e
//
//   LookSAM (Liu et al. 2022)  the first of `period` steps has h, and keeps v, the part of h at
//                              right angles to g:  v = h - g (h, g) / |g|^2;  the others have
//                              g + reuse (|g| / |v|) v, without a second pass
//
// Each rank perturbs weights by its own gradient of each micro-batch (m-sharpness), so nothing more
// is exchanged. If |g| is 0, so is e. LookSAM's v is summed over micro-batches, and in the other
// steps |g| is the norm of their sum: noise makes each one's much longer. The second pass uses the
// first one's dropout; running statistics and metrics are those at w. A step with h costs two. With
// LookSAM the exchange waits for the whole of backward; this rank's v is part of run_state. On a
// GPU the norm stays in its memory, no step is captured, and LookSAM is refused.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/option_range.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/parameter_packing.hpp>
#include <cordee/nn/saved_metrics.hpp>
#include <cordee/nn/uphill.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/segmented.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::nn {

/// How sharpness_aware climbs.
struct sharpness_options {
  /// Length of e: the papers' rho. Range: finite, above 0, else usage_error. Default: as Foret et
  /// al. 2021; Kwon et al. 2021 have 0.5 to 2 for ASAM.
  double radius = 0.05;
  bool adaptive = false;  ///< Whether e is scaled by the weights: ASAM.
  /// Added to |w| in T. Range: finite, 0 or more, else usage_error. Default: as Kwon et al. 2021.
  double eta = 0.01;
  /// Steps for one second pass; above 1: LookSAM. Unit: steps. Range: 1 or more, else usage_error.
  int period = 1;
  /// Weight of v in the steps between: LookSAM's alpha. Range: finite, 0 or more, else usage_error.
  /// Default: as Liu et al. 2022.
  double reuse = 0.7;

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    core::expects_positive("sharpness_aware", "radius", radius);
    core::expects_not_negative("sharpness_aware", "eta", eta);
    core::expects_not_negative("sharpness_aware", "reuse", reuse);
    expects(period >= 1, "sharpness_aware: the period must be at least 1 step");
  }
};

}  // namespace detail::nn

/// `Net`, a network or another model, trained by sharpness-aware minimization (SAM).
template <class Net>
class sharpness_aware : public Net {
  using real = typename Net::precision::master;
  using D = typename Net::device;
  using stream = typename D::stream;
  using batch_type_ = detail::nn::batch_of<Net>;

  static_assert(!Quantized<typename Net::precision>,
                "sharpness_aware: int8 rounds the weights by more than a step uphill: train in "
                "fp32 or bf16");
  static_assert(!detail::nn::HasModelState<Net>,
                "sharpness_aware wraps a network itself, not adversarial");

 public:
  using packed_parameters = typename Net::packed_parameters;  ///< See Model.
  /// Both passes write the whole plane.
  static constexpr bool skips_frozen_gradients = false;

  /// How it ascends. The trainer's constructor checks the options.
  detail::nn::sharpness_options sharpness{};

  /// Wraps the model.
  explicit sharpness_aware(const detail::nn::sharpness_options& given = {}, Net wrapped = Net{})
      : Net(std::move(wrapped)), sharpness(given), uphill_packed_(Net::make_packed_parameters()) {}

  /// Wraps a network on a device, with the default options.
  explicit sharpness_aware(D target)
    requires std::constructible_from<Net, D>
      : sharpness_aware({}, Net(target)) {}

  /// Checks the options and the model's. @throws usage_error for one out of its range.
  [[gnu::cold]] void check() const {
    sharpness.check();
    expects(D::host_memory || sharpness.period == 1,
            "sharpness_aware: a period above 1 (LookSAM) is not written for GPUs: use period 1");
    if constexpr (requires(const Net& net) { net.check(); }) Net::check();
  }
  /// As the model's, at the unperturbed weights.
  void forward(const packed_parameters& in, span_on<real, D> plane, const batch_type_& b, phase p,
               stream s) {
    Net::forward(in, plane, b, p, s);
    metrics_.save(static_cast<const Net&>(*this), s);
    if (p != phase::train) return;
    plane_ = plane;
    batch_ = b;
  }
  /// Adds the gradients of the last forward pass, in one pass or two; see the header's top.
  template <class Ready>
  void backward(const packed_parameters& in, span_on<real, D> gradients, write_mode mode,
                Ready&& ready, stream s) {
    const std::span<const segment> all = Net::segments();
    const auto trained = all.first(detail::core::count_trainable(all));
    const bool looks = sharpness.period > 1;
    allocate(plane_.size, looks);
    gradient_at(in, first_, s);
    metrics_.save(static_cast<const Net&>(*this), s);  // a custom_model's pass is its backward
    if (!looks) {
      climb(trained, s);
      Net::backward(uphill_packed_, gradients, mode, ready, s);
      return;
    }
    if constexpr (D::host_memory) look(trained, gradients, mode, s);
    for (std::size_t k = trained.size(); k-- > 0;) ready(k);
  }
  /// Bytes allocated in addition to the model's: gradients, perturbed weights in both forms, and
  /// the kept direction.
  [[nodiscard, gnu::cold]] std::size_t uphill_bytes() const {
    const std::span<const segment> all = Net::segments();
    const std::size_t plane = arena<real, D>::size_of_plane(all) * sizeof(real);
    const auto packed = uphill_packed_.span();
    return (sharpness.period > 1 ? 4 : 3) * plane + packed.size * sizeof(packed.data[0]);
  }
  /// Metrics at the unperturbed weights. Blocks the host on a GPU.
  [[nodiscard]] metrics read_metrics(stream s) const {
    return metrics_.read(static_cast<const Net&>(*this), s);
  }
  /// The same in the device's memory, of a model that has them there.
  [[nodiscard]] auto device_metrics() const
    requires detail::nn::HasDeviceMetrics<Net>
  {
    return metrics_.sums();
  }

  /// The part on the host, of a model that has one.
  [[nodiscard]] metrics host_metrics() const
    requires detail::nn::HasHostMetrics<Net>
  {
    return metrics_.host();
  }

  /// This rank's v, if it has one.
  [[nodiscard]] std::vector<double> state(const packed_parameters&) const {
    if constexpr (D::host_memory) {
      if (!has_direction_) return {};
      const real* const v = direction_.span().data;
      return {v, v + direction_.span().size};
    }
    return {};
  }
  /// Restores v; without numbers the next step computes it.
  [[gnu::cold]] void restore(packed_parameters&, std::span<const double> numbers, stream s) {
    const std::span<const segment> all = Net::segments();
    const std::size_t size = all.empty() ? 0 : detail::core::align_up(all.back().end());
    has_direction_ = !numbers.empty();
    direction_step_ = sum_step_ = -1;
    if (!has_direction_) return;
    expects(sharpness.period > 1 && numbers.size() == size,
            "sharpness_aware: the saved direction is of another network or another period");
    if constexpr (D::host_memory) {
      allocate(size, true);
      std::transform(numbers.begin(), numbers.end(), direction_.span().data,
                     [](double x) { return static_cast<real>(x); });
      const auto trained = all.first(detail::core::count_trainable(all));
      squared_direction_ = product(trained, direction_, direction_, s);
    }
  }
  /// One line for logs.
  [[nodiscard]] std::string describe_sharpness() const {
    return concat("gradients uphill by ", sharpness.radius,
                  sharpness.adaptive ? concat(" in units of the weights, eta ", sharpness.eta) : "",
                  sharpness.period > 1
                      ? concat(", every ", sharpness.period, " steps, between with ",
                               sharpness.reuse, " of the direction kept")
                      : "");
  }

 private:
  using plane_buffer = buffer<real, D>;

  // Those of the model would pass by the passes here.
  void captured_arguments() const = delete;
  void backward_packed() = delete;
  void unpack_gradients() = delete;

  void allocate(std::size_t size, bool looks) {
    const auto make = [&](plane_buffer& b) {
      if (b.span().size != size) b = plane_buffer(Net::get_device(), size);
    };
    make(first_), make(uphill_), make(uphill_plane_);
    if (looks) make(direction_);
    squares_.reserve(Net::segments().size());
  }
  void copy(plane_buffer& to, const real* from, stream s) const {
    Net::get_device().copy(to.span().data, from, to.span().size * sizeof(real), s);
  }
  // The gradient of the last forward pass.
  void gradient_at(const packed_parameters& in, plane_buffer& to, stream s) {
    Net::get_device().clear(to.span().data, to.span().size * sizeof(real), s);
    Net::backward(
        in, to.span(), write_mode::add, [](std::size_t) {}, s);
  }
  // The forward pass at w + e.
  void climb(std::span<const segment> trained, stream s) {
    using detail::ops::segmented_squares;
    copy(uphill_, first_.span().data, s);
    copy(uphill_plane_, plane_.data, s);
    real* const g = uphill_.span().data;
    double* const squares = squares_.span().data;
    const detail::nn::scaled_by_size<real> by_size{plane_.data, g,
                                                   static_cast<real>(sharpness.eta)};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp, device/gpu_kernel.hpp
    if (sharpness.adaptive) segmented_for<real>(s, trained, by_size);
    segmented_squares<real>(s, trained, uphill_.span(), squares_.span());
    for_each(s, 1, detail::nn::climb_scale_op{squares, trained.size(), sharpness.radius});
    if (sharpness.adaptive) segmented_for<real>(s, trained, by_size);
    segmented_for<real>(
        s, trained,
        detail::nn::moved_uphill<real>{plane_.data, g, uphill_plane_.span().data, squares});
    detail::nn::pack_anew(static_cast<const Net&>(*this), uphill_plane_.span(), uphill_packed_, s);
    Net::forward(uphill_packed_, uphill_plane_.span(), batch_, phase::train, s);
  }
  // A step of LookSAM.
  void look(std::span<const segment> trained, span_on<real, D> gradients, write_mode mode,
            stream s) {
    if (mode == write_mode::overwrite) std::fill_n(gradients.data, gradients.size, real{});
    const std::int64_t step = batch_.info.empty() ? 0 : batch_.info[0].step;
    if (step % sharpness.period == 0 || !has_direction_) {
      climb(trained, s);
      gradient_at(uphill_packed_, uphill_, s);
      keep_direction(trained, step, s);
      add(trained, uphill_, uphill_, 0, gradients, s);
    } else {
      add_with_direction(trained, step, gradients, s);
    }
  }
  // v <- v + h - g (h, g) / |g|^2, where v is 0 in a step's first micro-batch
  void keep_direction(std::span<const segment> trained, std::int64_t step, stream s) {
    const auto v = direction_.span();
    if (!has_direction_ || step != direction_step_) std::fill_n(v.data, v.size, real{});
    const double along = product(trained, uphill_, first_, s) / product(trained, first_, first_, s);
    add(trained, uphill_, first_, detail::core::isfinite(along) ? -along : 0, v, s);
    direction_step_ = step;
    squared_direction_ = product(trained, direction_, direction_, s);
    has_direction_ = detail::core::isfinite(squared_direction_);
  }
  // to <- to + g + the change of reuse (|sum of g| / |v|) v by this micro-batch
  void add_with_direction(std::span<const segment> trained, std::int64_t step, span_on<real, D> to,
                          stream s) {
    const auto sum = uphill_.span();
    if (step != sum_step_) std::fill_n(sum.data, sum.size, real{}), share_ = 0;
    sum_step_ = step;
    add(trained, first_, first_, 0, sum, s);
    const double share =
        sharpness.reuse *
        detail::core::sqrt(product(trained, uphill_, uphill_, s) / squared_direction_);
    const double before = std::exchange(share_, detail::core::isfinite(share) ? share : 0);
    add(trained, first_, direction_, share_ - before, to, s);
  }
  // to <- to + x + scale y
  static void add(std::span<const segment> trained, const plane_buffer& x, const plane_buffer& y,
                  double scale, span_on<real, D> to, stream s) {
    segmented_for<real>(s, trained,
                        detail::nn::added_with<real>{x.span().data, y.span().data, to.data,
                                                     static_cast<real>(scale)});
  }
  static double product(std::span<const segment> trained, const plane_buffer& x,
                        const plane_buffer& y, stream s) {
    std::vector<double> sums(trained.size());
    detail::ops::segmented_sums(s, trained, span_on<double, D>{sums.data(), sums.size()},
                                [&](std::size_t, std::size_t first, std::size_t last) {
                                  detail::ops::dot_product sum;
                                  sum.add(x.span().data + first, y.span().data + first,
                                          last - first);
                                  return sum.total();
                                });
    double total = 0;
    for (const double sum : sums) total += sum;
    return total;
  }

  packed_parameters uphill_packed_;
  plane_buffer first_, uphill_, uphill_plane_, direction_;  // g; T^2 g, h; w + e; v
  buffer<double, D> squares_{Net::get_device(), 0};  // (segments); the climb's scale in front
  double squared_direction_ = 0;
  double share_ = 0;  // of v in the gradients of step sum_step_ so far
  std::int64_t direction_step_ = -1, sum_step_ = -1;
  bool has_direction_ = false;
  span_on<real, D> plane_{};  // of the last forward pass, with its batch and metrics
  batch_type_ batch_{};
  detail::nn::saved_metrics<Net> metrics_{Net::get_device()};
};

}  // namespace cordee::inline CORDEE_ABI
