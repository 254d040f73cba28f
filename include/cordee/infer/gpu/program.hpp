// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an integer program on a GPU: a launch for each step, and one more for each convolution of an
// input of 32 bits, whose bytes it makes. Convolutions are those of engine `tensor_core`, with an
// epilogue that requantizes. Weights are unpacked and constants made once; activations are
// temporary memory of the stream. Offloaded, what a step reads is in page-locked host memory, and
// in one of two slots of the device (device/weight_slots.hpp) while the step runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/weight_slots.hpp>
#include <cordee/infer/gpu/layers.hpp>
#include <cordee/infer/gpu/requantize_epilogue.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/ops/engines/tensor_core/bytes.hpp>
#include <cordee/ops/engines/tensor_core/correlation.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <Device D>
  requires GpuStream<typename D::stream>
class gpu_program {
  using stream = typename D::stream;

 public:
  /// Throws error that names a layer without a form on tensor cores.
  gpu_program(const integer_program& program, const D& device, stream s, bool offloads = false)
      : device_(device),
        image_(program.image),
        steps_(program.steps),
        plan_(program, padded_sizes(program)),
        table_(uploaded(program.table, s)) {
    std::vector<std::byte> host;
    core::pod_vector<std::size_t> ends;
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      std::visit([&](auto& layer) { add(layer, steps_[k].name, s); }, steps_[k].layer);
      if (!offloads) continue;
      move_to_host(constants_.back(), host, s);
      ends.push_back(host.size());
    }
    if (offloads) {
      offloaded_.reset(new offloaded_weights{device::pinned_weights<D>(device_, host.size()),
                                             device::weight_slots<D>(device_, std::move(ends))});
      std::copy(host.begin(), host.end(), offloaded_->host.span().data);
    }
    std::size_t largest = lanes_of(image_);
    for (const integer_step& of : steps_) largest = std::max(largest, lanes_of(of.out()));
    most_samples_ = std::numeric_limits<std::int32_t>::max() / largest;
  }

  /// Limit for one call: positions have 31 bits.
  [[nodiscard]] std::size_t most_samples() const { return most_samples_; }

  /// Bytes of the device that hold constants of steps, and those that a call uploads.
  [[nodiscard]] std::size_t constant_bytes() const {
    if (offloaded_ != nullptr) return offloaded_->slots.bytes();
    std::size_t sum = 0;
    for (const constants& of : constants_) sum += of.weights.size() + of.factors.size();
    return sum;
  }
  [[nodiscard]] std::size_t uploaded_bytes() const {
    return offloaded_ != nullptr ? offloaded_->slots.forward_bytes() : 0;
  }

  void run(std::size_t samples, const std::uint8_t* images, std::int32_t* logits, stream s) const {
    if (samples == 0) return;
    const device::stream_buffer<std::byte, stream> activations(s, plan_.size * samples);
    run_state at{samples, activations.data(), logits, s};
    cordee::for_each(s, samples * image_.pixels(),
                     read_image_op{.channels = image_.channels,
                                   .pixels = image_.pixels(),
                                   .table = numbers<std::uint8_t>(table_),
                                   .images = images,
                                   .q = output<std::uint8_t>(at, -1)});
    if (offloaded_ != nullptr)
      offloaded_->slots.begin_forward(std::as_const(offloaded_->host).span().data, s);
    for (int k = 0; k < static_cast<int>(steps_.size()); ++k) {
      const auto block = static_cast<std::size_t>(k);
      if (offloaded_ != nullptr) at.offloaded = offloaded_->slots.enter(block, s);
      std::visit([&](const auto& layer) { run_step(k, layer, at); }, step(k).layer);
      if (offloaded_ != nullptr) offloaded_->slots.leave(block, s);
    }
  }

 private:
  using memory = buffer<std::byte, D>;
  /// What a step reads in the GPU's memory.
  struct constants {
    memory weights, factors;
    std::size_t weights_at = 0, factors_at = 0;  // where they are offloaded
  };
  struct offloaded_weights {
    device::pinned_weights<D> host;
    device::weight_slots<D> slots;
  };
  struct run_state {
    std::size_t samples;
    std::byte* activations;
    std::int32_t* logits;
    stream s;
    const std::byte* offloaded = nullptr;  // where those of the step are counted from
  };

  static std::size_t lanes_of(const extent& e) {
    return e.pixels() * static_cast<std::size_t>(padded_channels(e.channels));
  }
  static std::vector<std::size_t> padded_sizes(const integer_program& program) {
    std::vector<std::size_t> sizes{lanes_of(program.image)};
    for (const integer_step& s : program.steps)
      sizes.push_back(lanes_of(s.out()) * static_cast<std::size_t>(s.bytes));
    return sizes;
  }
  template <class T>
  [[nodiscard]] memory uploaded(const std::vector<T>& host, stream s) const {
    memory there(device_, host.size() * sizeof(T));
    device_.copy(there.span().data, host.data(), host.size() * sizeof(T), s);
    device_.finish(s);
    return there;
  }
  template <class T>
  [[nodiscard]] static const T* numbers(const memory& from) {
    return reinterpret_cast<const T*>(from.span().data);
  }
  void move_to_host(constants& of, std::vector<std::byte>& host, stream s) const {
    const auto move = [&](memory& from, std::size_t& at) {
      at = host.size();
      host.resize(at + (from.size() + 255) / 256 * 256);
      device_.copy(host.data() + at, from.span().data, from.size(), s);
      device_.finish(s);
      from = {};
    };
    move(of.weights, of.weights_at);
    move(of.factors, of.factors_at);
  }

  /// A layer's weights go to the GPU, not to its copy here.
  void add(integer_convolution& c, const std::string& name, stream s) {
    const convolution_problem& p = c.problem;
    if (p.window > ops::max_taps)
      throw error(concat("layer \"", name, "\" has no form on a GPU: its window of ", p.window,
                         " is larger than ", ops::max_taps));
    const ops::krsc_layout layout(p, padded_channels(p.in.channels), padded_channels(p.filters));
    memory packed(device_, layout.size());
    const memory plain = uploaded(c.weights, s);
    std::int8_t *const krsc = reinterpret_cast<std::int8_t*>(packed.span().data), *crsk = nullptr;
    ops::pack_filters(layout, numbers<std::int8_t>(plain), krsc, crsk, s);
    device_.finish(s);
    constants_.push_back({std::move(packed), uploaded(rescalings_of(c, layout.padded_filters), s)});
    c.weights = {};
  }
  void add(integer_batch_norm& n, const std::string&, stream s) {
    std::vector<norm_factor> factors(static_cast<std::size_t>(padded_channels(n.in.channels)));
    for (std::size_t c = 0; c < n.multiplier.size(); ++c)
      factors[c] = {n.multiplier[c], n.addend[c]};
    constants_.push_back({{}, uploaded(factors, s)});
  }
  void add(integer_classifier& c, const std::string& name, stream s) {
    std::vector<std::int16_t> transposed(c.weights.size());  // (features, classes)
    std::vector<class_rescaling> factors;
    for (std::size_t k = 0; k < c.classes; ++k) {
      for (std::size_t f = 0; f < c.features; ++f)
        transposed[f * c.classes + k] = c.weights[k * c.features + f];
      factors.push_back({c.bias[k], c.factors[k]});
    }
    if (in_of(step(static_cast<int>(constants_.size()))).pixels() != 1)
      throw error(concat("layer \"", name, "\" has no form on a GPU: its input is not one pixel"));
    constants_.push_back({uploaded(transposed, s), uploaded(factors, s)});
    c.weights = {};
  }
  void add(const auto&, const std::string&, stream) { constants_.push_back({}); }

  [[nodiscard]] const integer_step& step(int k) const {
    return steps_[static_cast<std::size_t>(k)];
  }
  [[nodiscard]] extent in_of(const integer_step& s) const {
    return s.input < 0 ? image_ : step(s.input).out();
  }
  /// The output of a step, -1 for the image.
  template <class T>
  [[nodiscard]] T* output(const run_state& at, int k) const {
    return reinterpret_cast<T*>(at.activations +
                                plan_.offsets[static_cast<std::size_t>(k + 1)] * at.samples);
  }
  template <class Layer>
  [[nodiscard]] output_form form_of(const Layer& layer, int k, const run_state& at) const {
    const int added = step(k).residual;
    return output_form::of(layer, added < 0 ? nullptr : output<const std::int32_t>(at, added));
  }
  [[nodiscard]] const constants& constants_of(int k) const {
    return constants_[static_cast<std::size_t>(k)];
  }
  template <class T>
  [[nodiscard]] const T* weights_of(int k, const run_state& at) const {
    const constants& of = constants_of(k);
    return at.offloaded == nullptr ? numbers<T>(of.weights)
                                   : reinterpret_cast<const T*>(at.offloaded + of.weights_at);
  }
  template <class T>
  [[nodiscard]] const T* factors_of(int k, const run_state& at) const {
    const constants& of = constants_of(k);
    return at.offloaded == nullptr ? numbers<T>(of.factors)
                                   : reinterpret_cast<const T*>(at.offloaded + of.factors_at);
  }

  void run_step(int k, const integer_convolution& c, const run_state& at) const {
    const int input = step(k).input;
    if (input < 0 || step(input).bytes == 1)
      return convolve(k, c, output<const std::uint8_t>(at, input), at);
    const std::size_t n = at.samples * lanes_of(c.problem.in);
    const device::stream_buffer<std::uint8_t, stream> q(at.s, n);
    cordee::for_each(
        at.s, n / 4,
        to_bytes_op{c.input_factor, c.zero_point, output<const std::int32_t>(at, input), q.data()});
    convolve(k, c, q.data(), at);
  }
  void convolve(int k, const integer_convolution& c, const std::uint8_t* q,
                const run_state& at) const {
    with_activation(step(k).bytes, [&]<class Out>(Out*) {
      const requantize_epilogue<Out> epilogue{factors_of<filter_rescaling>(k, at),
                                              form_of(c, k, at), output<Out>(at, k)};
      ops::launch_correlation(
          ops::fprop_gemm<std::uint8_t>(c.problem, static_cast<int>(at.samples)), q,
          weights_of<std::int8_t>(k, at), ops::byte_padding_prologue{.byte = c.zero_point},
          epilogue, at.s);
    });
  }
  void run_step(int k, const integer_batch_norm& n, const run_state& at) const {
    with_activation(step(k).bytes, [&]<class Out>(Out*) {
      cordee::for_each(at.s, at.samples * lanes_of(n.in) / 4,
                       integer_batch_norm_op<Out>{
                           ops::fast_divisor(padded_channels(n.in.channels) / 4), n.shift,
                           factors_of<norm_factor>(k, at), form_of(n, k, at),
                           output<const std::int32_t>(at, step(k).input), output<Out>(at, k)});
    });
  }
  void run_step(int k, const ops::max_pool_problem& p, const run_state& at) const {
    with_activation(step(k).bytes, [&]<class A>(A*) {
      using op = integer_max_pool_op<A>;
      using groups = channel_groups<op::group>;
      cordee::for_each(at.s, at.samples * lanes_of(p.out()) / op::group,
                       op{p, groups(p.in), groups(p.out()), output<const A>(at, step(k).input),
                          output<A>(at, k)});
    });
  }
  void run_step(int k, const ops::subsample_problem& p, const run_state& at) const {
    cordee::for_each(at.s, at.samples * lanes_of(p.out),
                     integer_subsample_op{p, channel_groups<1>(p.in), channel_groups<1>(p.out),
                                          output<const std::int32_t>(at, step(k).input),
                                          output<std::int32_t>(at, k)});
  }
  void run_step(int k, const mean_problem& m, const run_state& at) const {
    const int lanes = padded_channels(m.in.channels);
    cordee::for_each(at.s, at.samples * static_cast<std::size_t>(lanes),
                     integer_mean_op{.pixels = static_cast<int>(m.in.pixels()),
                                     .lanes = lanes,
                                     .x = output<const std::int32_t>(at, step(k).input),
                                     .y = output<std::int32_t>(at, k)});
  }
  void run_step(int k, const integer_classifier& c, const run_state& at) const {
    const integer_classifier_kernel kernel{static_cast<int>(c.features),
                                           padded_channels(in_of(step(k)).channels),
                                           static_cast<int>(c.classes),
                                           c.shift,
                                           output<const std::int32_t>(at, step(k).input),
                                           weights_of<std::int16_t>(k, at),
                                           factors_of<class_rescaling>(k, at),
                                           at.logits};
    at.s.launch_kernel(at.samples * kernel.tiles(), kernel);
  }

  D device_;
  extent image_;
  std::vector<integer_step> steps_;  // without their weights
  memory_plan plan_;
  memory table_;
  std::vector<constants> constants_;  // of the steps
  std::unique_ptr<offloaded_weights> offloaded_;
  std::size_t most_samples_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
