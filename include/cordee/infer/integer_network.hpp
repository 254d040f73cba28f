// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A trained network that runs only on integers: from the bytes of images to 32-bit logits.
//
//   auto net = run.with_mean_model([&] {  // of a trainer, on all ranks
//     return integer_network::from<resnet<20, int8, cpu>>(run.weights(), feed.normalization());
//   });
//   net.run(images, logits);  // (samples, channels, height, width) -> (samples, classes)
//   net.save("net.safetensors");
//   auto same = integer_network::load("net.safetensors");  // any network, logits equal to the bit
//
// The weights are those of an int8 network: trained in int8, or in FP32 and calibrated
// (train/int8/calibrate.hpp). Sums are rounded once (ops/requantize.hpp). Every layer is defined in
// infer/program/integer_layers.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/infer/count_images.hpp>
#include <cordee/infer/cpu/direct_program.hpp>
#include <cordee/infer/file/expect_layers.hpp>
#include <cordee/infer/file/program_file.hpp>
#include <cordee/infer/file/program_reader.hpp>
#include <cordee/infer/file/stored_parameters.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/infer/program/program_limits.hpp>
#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/precision/int8.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of integer_network::from.
struct integer_network_options {
  /// Whether batch norms are folded into the preceding convolutions, or separate steps, each exact
  /// for every 18-bit number that a convolution outputs (infer/quantize/fit_batch_norm.hpp).
  bool fold_batch_norm = true;
};

/// A network that computes in integers, on the CPU.
class integer_network {
 public:
  integer_network(integer_network&&) noexcept = default;
  integer_network& operator=(integer_network&&) noexcept = default;

  /// Converts a network of type N, whose weights, running statistics and ranges are in `plane`,
  /// laid out by N's table. Throws error that names the layer if a layer has no range, or numbers
  /// that are not finite or exceed integers, and if `load` would reject the file
  /// (infer/program/program_limits.hpp); usage_error if the normalization is not finite.
  template <class N>
  [[nodiscard]] static integer_network from(std::span<const float> plane,
                                            const normalization& pixels, const cpu& device = cpu(),
                                            integer_network_options options = {}) {
    static_assert(
        requires { N::input; },
        "an integer_network folds the library's layers, which a model of your own does not have");
    static_assert(
        Quantized<typename N::precision>,
        "an integer_network is made of a network in int8, whose ranges it needs: load the "
        "weights into one and calibrate it");
    constexpr int bits = detail::precision::weight_bits<typename N::precision>;
    static_assert(
        bits == 8 || bits == 4 || bits == 2,
        "an integer_network has weights of 8, 4 or 2 bits: low_bit_weights only simulates "
        "others");
    expects(plane.size() >= N::plane_size(),
            "integer_network: the plane is smaller than the network's table");
    const detail::infer::layer_list list =
        detail::infer::list_layers(static_cast<const N*>(nullptr), options.fold_batch_norm);
    detail::infer::program_builder builder(list, plane, bits);
    auto program = builder.build(N::input, pixels);
    if (const auto reason = detail::infer::exceeded_limit(program))
      throw error(concat("integer_network: ", *reason));
    return integer_network(std::move(program), builder.logit_step(), device);
  }

  /// Reads a file written by `save`, of any network. Throws error that names what is damaged, by
  /// its checksum, or what a run could not rely on.
  [[nodiscard]] static integer_network load(const std::string& path, const cpu& device = cpu()) {
    detail::infer::stored_program stored = detail::infer::program_reader(path).read();
    return integer_network(std::move(stored.program), stored.logit_step, device);
  }
  /// Same, for network type N only. Throws error that names the first layer that differs.
  template <class N>
  [[nodiscard]] static integer_network load(const std::string& path, const cpu& device = cpu()) {
    integer_network loaded = load(path, device);
    const detail::infer::layer_list list = detail::infer::list_layers(
        static_cast<const N*>(nullptr), !loaded.program_.has_batch_norm());
    detail::infer::expect_layers(loaded.program_, N::input, list.layers(),
                                 detail::precision::weight_bits<typename N::precision>, path);
    return loaded;
  }
  /// Writes the file atomically: the name refers to the old file or to the complete new one.
  void save(const std::string& path) const {
    detail::infer::save_program(path, program_, logit_step_);
  }

  /// Bytes of weights, biases, factors and batch norms in the file. Excludes its description and,
  /// in 256 bytes per image channel plus 8, the table of pixels and the logit step.
  [[nodiscard]] std::size_t parameter_bytes() const {
    return detail::infer::stored_parameters(program_).bytes();
  }

  /// Extent of an input image.
  [[nodiscard]] const extent& image() const { return program_.image; }
  /// Number of logits per sample.
  [[nodiscard]] std::size_t classes() const { return program_.classes(); }
  /// The real number that one step of a logit represents.
  [[nodiscard]] double logit_step() const { return logit_step_; }
  /// The layers with their parameters, as `integer_network_on` reads them.
  [[nodiscard]] const detail::infer::integer_program& program() const { return program_; }

  /// Computes the logits; allocates nothing. One call at a time, also for networks made with copies
  /// of one `cpu`, since they share its workers; networks with different devices run concurrently.
  /// Throws usage_error that names both counts if images are incomplete, or do not have classes()
  /// logits each. Spans have no shape: pixels of 14 x 56 are read as 28 x 28.
  void run(std::span<const std::uint8_t> images,  // (samples, channels, height, width)
           std::span<std::int32_t> logits) {      // (samples, classes)
    direct_.run(samples_of(images, logits), images.data(), logits.data());
  }
  /// Same, by the definitions in infer/program/integer_layers.hpp, in integers of type Int.
  template <class Int = std::int64_t>
  void run_reference(std::span<const std::uint8_t> images, std::span<std::int32_t> logits) const {
    const detail::infer::memory_plan plan(program_, detail::infer::plain_sizes(program_));
    std::vector<std::byte> memory(plan.size);
    for (std::size_t n = 0; n < samples_of(images, logits); ++n)
      detail::infer::run_reference<detail::infer::integer_reference<Int>>(
          program_, plan, memory.data(), images.data() + n * image().size(),
          logits.data() + n * classes());
  }

 private:
  integer_network(detail::infer::integer_program program, double logit_step, const cpu& device)
      : program_(std::move(program)), logit_step_(logit_step), direct_(program_, device) {}

  [[nodiscard]] std::size_t samples_of(std::span<const std::uint8_t> images,
                                       std::span<std::int32_t> logits) const {
    return detail::infer::count_images("integer_network", images.size(), image(), logits.size(),
                                       classes());
  }

  detail::infer::integer_program program_;
  double logit_step_;
  detail::infer::direct_program<detail::ops::lanes<float>> direct_;
};

}  // namespace cordee::inline CORDEE_ABI
