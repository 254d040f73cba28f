// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An integer network on a GPU, whose logits are bitwise those of integer_network on the CPU:
//
//   const auto net = integer_network::load("net.safetensors");
//   const integer_network_on on_gpu(net, device, s);  // s: a stream of the GPU
//   on_gpu.run(images, logits, s);                    // memory of the GPU
//   const integer_network_on by_layer(net, device, s, {.offload_weights = true});
//
// Its convolutions multiply bytes on tensor cores, by engine `tensor_core`.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/infer/count_images.hpp>
#include <cordee/infer/gpu/program.hpp>
#include <cordee/infer/integer_network.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::infer {

/// Options of an integer_network_on.
struct integer_network_on_options {
  /// Whether the weights of a layer are on the GPU only while it computes: they are in page-locked
  /// host memory, and the next layer's are uploaded meanwhile, to one of two slots of the largest
  /// layer. Then calls share the slots: all are on one stream, or in its order.
  bool offload_weights = false;
};

}  // namespace detail::infer

/// An `integer_network` on a GPU.
template <Device D>
class integer_network_on {
  static_assert(GpuStream<typename D::stream>,
                "integer_network_on is for a GPU: on the CPU run the integer_network itself");

 public:
  /// Blocks the host until the weights are on the device. Throws error that names a layer without a
  /// GPU implementation: a window beyond 15 x 15, a classifier whose input is not one pixel.
  integer_network_on(const integer_network& network, const D& device, typename D::stream s,
                     const detail::infer::integer_network_on_options& options = {})
      : image_(network.image()),
        classes_(network.classes()),
        logit_step_(network.logit_step()),
        program_(network.program(), device, s, options.offload_weights) {}

  /// Extent of an input image.
  [[nodiscard]] const extent& image() const { return image_; }
  /// Number of logits per sample.
  [[nodiscard]] std::size_t classes() const { return classes_; }
  /// GPU memory for the layers' weights, in bytes.
  [[nodiscard]] std::size_t weight_bytes() const { return program_.constant_bytes(); }
  /// Bytes of weights uploaded by a call; 0 unless they are offloaded.
  [[nodiscard]] std::size_t uploaded_bytes() const { return program_.uploaded_bytes(); }
  /// The real number that one step of a logit represents.
  [[nodiscard]] double logit_step() const { return logit_step_; }

  /// Computes the logits. Uses only the stream's temporary memory, so it can be captured in a
  /// graph. Throws usage_error as integer_network::run does.
  void run(span_on<const std::uint8_t, D> images,  // (samples, channels, height, width)
           span_on<std::int32_t, D> logits,        // (samples, classes)
           typename D::stream s) const {
    const std::size_t samples = detail::infer::count_images("integer_network_on", images.size,
                                                            image_, logits.size, classes_);
    if (samples > program_.most_samples())
      throw usage_error(concat("integer_network_on: ", samples, " images in a call, at most ",
                               program_.most_samples(), " are possible"));
    program_.run(samples, images.data, logits.data, s);
  }

 private:
  extent image_;
  std::size_t classes_;
  double logit_step_;
  detail::infer::gpu_program<D> program_;
};

}  // namespace cordee::inline CORDEE_ABI
