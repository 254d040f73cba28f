// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Class probabilities of images without labels:
//
//   p_k = exp(z_k) / sum over j of exp(z_j)     z: the logits of an image
//
// or those of the network's loss (nn/loss.hpp): sigmoids for binary_cross_entropy, for
// mean_squared_error the logits, limited to 0 .. 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/ops/cpu/loss.hpp>
#include <cordee/precision/number.hpp>
#include <cordee/train/measure/evaluate.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Images in memory as a data set of which every label is 0.
struct unlabelled_images {
  extent image_extent;
  int class_count;
  std::span<const std::uint8_t> pixels;  // (size, channels, height, width)

  [[nodiscard]] extent image() const { return image_extent; }
  [[nodiscard]] int classes() const { return class_count; }
  [[nodiscard]] std::size_t size() const { return pixels.size() / image_extent.size(); }
  int read(std::size_t i, std::span<std::uint8_t> to) const {
    std::memcpy(to.data(), pixels.data() + i * to.size(), to.size());
    return 0;
  }
};

/// Appends the probabilities of `classes` logits.
template <class M, class N>
void append_probabilities(const M& model, const N* logits, std::size_t classes,
                          std::vector<double>& out) {
  const ops::loss_sample<N> sample{logits, {}, static_cast<int>(classes)};  // of any label
  if constexpr (requires { model.loss(sample).probability(0.0); }) {
    const auto loss = model.loss(sample);
    for (int k = 0; k < sample.classes(); ++k) out.push_back(loss.probability(sample.logit(k)));
    return;
  }
  const std::size_t first = out.size();
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t k = 0; k < classes; ++k) {
    out.push_back(static_cast<double>(precision::widened(logits[k])));
    largest = std::max(largest, out.back());
  }
  for (std::size_t k = first; k < out.size(); ++k)
    sum += out[k] = detail::core::exp(out[k] - largest);
  for (std::size_t k = first; k < out.size(); ++k) out[k] /= sum;
}

}  // namespace detail::train

/// Returns probabilities (images, classes) of the mean model for `images`: pixels 0 .. 255 of whole
/// images (images, channels, height, width), in the data set's channel order and with the
/// normalization used in training. Each rank passes any number of images and receives their
/// results; a NaN in the logits makes an image's probabilities NaN. Collective. @throws usage_error
/// if batch_size is not positive; error if `images` is not a whole number of the network's images,
/// or if the normalization differs from the training's, as far as the run or the loaded file knows
/// it.
template <class Run>
std::vector<double> predict(Run& run, std::span<const std::uint8_t> images,
                            const normalization& norm, int batch_size = 250) {
  using M = typename Run::model_type;
  constexpr auto classes = static_cast<std::size_t>(M::classes);
  run.abort_peers_on_throw([&] {  // which may have given whole images
    expects(batch_size > 0, "predict: a batch has at least one image");
    if (images.size() % M::input.size() != 0)
      throw error(concat("predict: ", images.size(), " bytes are no whole number of images of ",
                         describe(M::input), ", which have ", M::input.size(),
                         " bytes each: resize and crop them as for evaluation"));
  });
  detail::train::expect_data_of(run, norm, {}, "predict");
  return run.with_mean_model([&] {
    const detail::train::unlabelled_images data{M::input, M::classes, images};
    upload<typename Run::device> uploaded(run.model().get_device());
    detail::data::slice_reader reader(data, 0, data.size(), batch_size, norm, 1);
    std::vector<double> probabilities;
    probabilities.reserve(data.size() * classes);
    for (auto read = reader.next(); !read.empty(); read = reader.next()) {
      const std::size_t count = read.front().labels.size;
      const auto b = uploaded.to(read, run.compute()).front();
      run.model().forward(run.packed_parameters(), run.weights(), b, phase::evaluate,
                          run.compute());
      const auto logits =
          copy_to_host(run.model().get_device(), run.model().logits(), run.compute());
      for (std::size_t n = 0; n < count; ++n)
        detail::train::append_probabilities(run.model(), &logits[n * classes], classes,
                                            probabilities);
    }
    return probabilities;
  });
}

}  // namespace cordee::inline CORDEE_ABI
