// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model given as your own function: any differentiable program whose tensors are in a
// parameter_list. One call is one micro-batch, forward and backward:
//
//   g[k] += sum over samples of  loss_weight() d loss(sample) / d w[k],   then ready(k)
//
// With that weight, the mean of the ranks' gradients is the gradient of the mean loss over all
// samples of an update, however they are distributed, times the loss scale. A bucket is exchanged
// as soon as all its tensors are ready, in the same order on all ranks: from the last tensor of the
// list to the first, whatever the order of calls.
//
// Weights and gradients are spans of the run's arena. A framework with its own memory can keep it
// (keep): each step then copies the weights there and the gradients back.
//
// On a GPU they are in its memory: the function runs on the host, submits its kernels to
// pass.stream(), and calls ready(k) when those that compute a gradient have been submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/function.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/model_pass.hpp>
#include <cordee/nn/parameter_list.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/loss.hpp>
#include <cordee/precision/fp32.hpp>

namespace cordee::inline CORDEE_ABI {

/// A model of data of type Data, given as a function. P is the precision of weights, gradients and
/// messages, and decides whether the loss is scaled; the function may compute in any other.
template <class Data, class P = fp32, class D = cpu>
class custom_model {
  static_assert(Precision<P> && !Quantized<P>,
                "int8 needs the library's layers, which quantise weights and activations: give "
                "custom_model fp32, fp64, fp16 or bf16");

 public:
  using precision = P;                         ///< See Model.
  using device = D;                            ///< See Model.
  using Real = typename P::master;             ///< Number type of weights and gradients.
  using batch_type = data_batch<Data, D>;      ///< What the function receives beside the data.
  using pass = model_pass<Real, D>;            ///< What the function gets beside the data.
  using stream = typename D::stream;           ///< A queue of the device's work.
  using packed_parameters = span_on<Real, D>;  ///< The plane itself: nothing is packed.
  /// Runs one micro-batch: adds gradients if pass.trains(), returns sums over its samples.
  using function = std::function<metrics(const Data&, pass&)>;
  /// Writes a tensor's initial values to device memory, alike on all ranks; on a GPU on the default
  /// stream, or before it returns.
  using initializer = std::function<void(const segment&, span_on<Real, D>, std::uint64_t seed)>;

  /// @throws usage_error for an empty list.
  custom_model(parameter_list list, function f, D target = {}, initializer initial = {})
      : pass_(std::move(list), target),
        function_(std::move(f)),
        initializer_(std::move(initial)),
        kept_(segments().size()) {
    expects(!segments().empty(), "custom_model: the list of parameters is empty");
    expects(function_ != nullptr, "custom_model: the function is empty");
  }

  /// Leaves tensor `name` in place: each step copies its values there, and ready() copies
  /// `gradient` to the arena, where it is added. A null gradient marks a statistic, whose values
  /// are copied to the arena before the first bucket is tested for infinities, and again after a
  /// pass that called ready(). Initial values are those found there.
  /// @throws usage_error for an unknown name, and on a GPU for memory that is not the GPU's.
  void keep(std::string_view name, Real* values, Real* gradient) {
    kept_tensor& own = kept_[parameters().index(name)];
    if constexpr (requires { get_device().owns(values); })
      for (const Real* memory : {values, gradient})
        if (memory != nullptr && !get_device().owns(memory))
          throw usage_error(concat(
              "custom_model: keep(\"", name,
              "\"): the memory is not that of the model's GPU, whose kernels read it: copy the "
              "tensor there, or leave keep out, and it is a span of the arena"));
    own = {values, gradient};
  }

  /// False: a graph would not call the function, so capture_graphs is rejected.
  static constexpr bool captures_graphs = false;
  /// See Model.
  [[nodiscard]] std::span<const segment> segments() const { return parameters().segments(); }
  [[nodiscard]] const D& get_device() const { return pass_.device_; }             ///< See Model.
  [[nodiscard]] const parameter_list& parameters() const { return pass_.list_; }  ///< The tensors.

  /// Keeps the values of kept tensors and sets others by their initializer. Without one, weights
  /// are uniform within 1 / sqrt(fan-in), as in PyTorch's linear and convolution layers, scales 1,
  /// all else 0.
  void initialize(span_on<Real, D> plane, std::uint64_t seed) const {
    const stream s{};
    for (std::size_t k = 0; k < segments().size(); ++k) {
      const segment& t = segments()[k];
      const span_on<Real, D> to = plane.subspan(t.offset, t.size);
      if (kept_[k].values != nullptr)
        copy(t, kept_[k].values, to.data, s);
      else if (initializer_)
        initializer_(t, to, seed);
      else
        draw(k, to, seed, s);
    }
    get_device().finish(s);
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const { return {}; }  ///< See Model.
  /// Kernels read `plane` itself, or the kept tensors, to which its values are copied.
  void pack_parameters(span_on<const Real, D> plane, packed_parameters& to, stream s) const {
    to = {const_cast<Real*>(plane.data), plane.size};  // NOLINT: forward gets it as const again
    for (std::size_t k = 0; k < segments().size(); ++k)
      if (kept_[k].values != nullptr)
        copy(segments()[k], plane.data + segments()[k].offset, kept_[k].values, s);
  }

  /// Calls the function in evaluation; in training backward calls it.
  void forward(const packed_parameters& values, span_on<Real, D>, const batch_type& b, phase p,
               stream s) {
    expects(b.data != nullptr || b.count == 0, "custom_model: a batch without data");
    pass_.running_ = {values, b, b.step, s};
    get_device().clear(pass_.sums_.span().data, sizeof(detail::ops::metric_sums), s);
    data_ = b.data;
    sums_ = {};
    if (p == phase::evaluate && b.count > 0) sums_ = function_(*data_, pass_);
  }
  /// Calls the function on the batch of the last forward.
  void backward(const packed_parameters& values, detail::device::plane_part<Real, D> gradients,
                write_mode mode, const std::function<void(std::size_t)>& ready, stream s) {
    if (mode == write_mode::overwrite)
      get_device().clear(gradients.numbers.data, gradients.numbers.size * sizeof(Real), s);
    auto& running = pass_.running_;
    running.loss_weight = running.update.loss_weight();
    running.gradients = gradients;
    running.ready = &ready;
    running.before_ready = [&](std::size_t k) {
      if (k + 1 == pass_.readiness_.count()) store_kept_statistics(values, s);  // the first bucket
      const segment& t = segments()[k];
      if (kept_[k].gradient != nullptr && running.update.count > 0 && gradients.has(t))
        add(t.size, kept_[k].gradient, gradients.of(t).data, s);  // or of ops/gpu/elementwise.hpp
    };
    pass_.readiness_.begin(detail::core::count_trainable(segments()));
    if (running.update.count > 0) sums_ = function_(*data_, pass_);
    if (pass_.readiness_.any())
      store_kept_statistics(values, s);
    else
      for (std::size_t k = pass_.readiness_.count(); k-- > 0;) pass_.ready(k);
    pass_.readiness_.expect_all(segments());
  }
  /// See Model. On a GPU it blocks the host.
  [[nodiscard]] metrics read_metrics(stream s) const {
    return metrics(sums_) += copy_to_host(get_device(), device_metrics(), s)[0];
  }
  /// Sums added by the last pass's kernels; read_metrics without the host's part.
  [[nodiscard]] span_on<const detail::ops::metric_sums, D> device_metrics() const {
    return pass_.sums_.span();
  }
  /// Converts sums of device_metrics to metrics.
  [[nodiscard]] metrics metrics_of(const detail::ops::metric_sums& sums) const { return sums; }
  /// What the function returned for the last pass.
  [[nodiscard]] metrics host_metrics() const { return sums_; }
  /// See Model. Passes may skip the gradients of these tensors.
  void freeze(std::span<const std::uint8_t> flags) { pass_.frozen_ = {flags.begin(), flags.end()}; }
  /// Tensors by kind, which of them are kept in place, and the bytes copied; for logs.
  [[nodiscard]] std::string describe_parameters() const {
    std::string names;
    std::size_t tensors = 0, there = 0, back = 0;
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      if (kept_[k].values == nullptr) continue;
      const segment& t = segments()[k];
      if (++tensors <= 8) names += concat(tensors == 1 ? "" : ", ", t.name);
      there += t.size * sizeof(Real);
      if (kept_[k].gradient != nullptr || t.kind == kind::statistic) back += t.size * sizeof(Real);
    }
    if (tensors == 0)
      return concat(parameters().describe(), "; weights and gradients are spans of the arena");
    return concat(parameters().describe(), "; ", tensors, " with their owner: ", names,
                  tensors > 8 ? ", ...; " : "; ", detail::core::grouped(there),
                  " bytes are copied there each update, ", detail::core::grouped(back),
                  " back each micro-batch");
  }

 private:
  struct kept_tensor {
    Real *values = nullptr, *gradient = nullptr;
  };
  void copy(const segment& t, const Real* from, Real* to, stream s) const {
    get_device().copy(to, from, t.size * sizeof(Real), s);
  }
  // As PyTorch's linear and convolution layers: uniform within 1 / sqrt(fan-in).
  void draw(std::size_t k, span_on<Real, D> to, std::uint64_t seed, stream s) const {
    const segment& t = segments()[k];
    std::vector<Real> initial(t.size, t.kind == kind::scale ? Real{1} : Real{0});
    if (t.kind == kind::weight) {
      const auto rows = static_cast<std::size_t>(std::max(t.shape[0], 1));
      const double bound = 1 / detail::core::sqrt(static_cast<double>(t.size / rows));
      random_sequence random(seed, purpose::weights, 0, k);
      for (Real& x : initial) x = static_cast<Real>(bound * (2 * random.uniform() - 1));
    }
    copy(t, initial.data(), to.data, s);
    get_device().finish(s);
  }
  void store_kept_statistics(const packed_parameters& values, stream s) const {
    for (std::size_t k = 0; k < segments().size(); ++k)
      if (segments()[k].kind == kind::statistic && kept_[k].values != nullptr)
        copy(segments()[k], kept_[k].values, values.data + segments()[k].offset, s);
  }

  pass pass_;  // the last one
  function function_;
  initializer initializer_;
  std::vector<kept_tensor> kept_;
  const Data* data_ = nullptr;
  metrics sums_{};  // the function's
};

}  // namespace cordee::inline CORDEE_ABI
