// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batches for a torch_model: from a torch::data set, and from Cordee's loaders of images.
//
//   batch_source feed{size, comm, {.global_batch = 256, .seed = 1},
//                     torch_batches{MNIST(path).map(Normalize<>(0.13, 0.31)).map(Stack<>())}};
//   torch_images feed{loader};      // photographs, shards, CIFAR, with Cordee's augmentation
//
// Both give every rank its part of an update, in an order determined by the seed, so a resumed run
// continues at the next sample; torch::data loaders do neither.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/batch_source.hpp>
#include <cordee/libtorch/generator.hpp>

namespace cordee::inline CORDEE_ABI {

/// The function of a batch_source over a torch::data set whose get_batch(indices) returns a whole
/// batch, as after map(Stack<>()). The data set is read on the training thread. LibTorch's
/// generator is seeded by the batch's position, the only thing random transforms depend on.
template <class Dataset>
struct torch_batches {
  Dataset dataset;  ///< This rank's own copy, as torch::data sets are copied.

  /// Returns the samples at these indices.
  auto operator()(const sample_indices& s) {
    detail::libtorch::seed_generator({s.seed, purpose::augmentation,
                                      static_cast<std::uint64_t>(s.update),
                                      static_cast<std::uint64_t>(s.first_sample)});
    return dataset.get_batch(std::vector<std::size_t>(s.samples.begin(), s.samples.end()));
  }
};
template <class Dataset>
torch_batches(Dataset) -> torch_batches<Dataset>;

/// Converts pixel bytes to a module's input: (x / 255 - mean) / deviation, in floats.
inline torch::Tensor normalized(const torch::Tensor& pixels, const normalization& n) {
  const auto of_channels = [&](const std::array<float, 4>& x) {
    return torch::tensor(at::ArrayRef<float>(x)).slice(0, 0, pixels.size(1)).reshape({1, -1, 1, 1});
  };
  return pixels.to(torch::kFloat).div_(255).sub_(of_channels(n.mean)).mul_(of_channels(n.scale));
}

/// A loader's batches as tensors, for `fit`: `data` holds the pixels, bytes (N, C, H, W), which are
/// not copied; `target` the labels, 64-bit (N).
template <class Loader>
class torch_images {
 public:
  using data_type = torch::data::Example<>;  ///< The model's input.

  /// `loader` must outlive it.
  explicit torch_images(Loader& loader) : loader_(&loader) {}

  [[nodiscard]] auto samples() const { return loader_->samples(); }                 ///< See loader.
  [[nodiscard]] auto global_batch() const { return loader_->global_batch(); }       ///< See loader.
  [[nodiscard]] auto accumulate() const { return loader_->accumulate(); }           ///< See loader.
  [[nodiscard]] auto ranks() const { return loader_->ranks(); }                     ///< See loader.
  [[nodiscard]] auto seed() const { return loader_->seed(); }                       ///< See loader.
  [[nodiscard]] auto steps(double epochs) const { return loader_->steps(epochs); }  ///< See loader.
  [[nodiscard]] auto epoch(std::int64_t k) const { return loader_->epoch(k); }      ///< See loader.
  [[nodiscard]] auto step() const { return loader_->step(); }                       ///< See loader.
  void seek(std::int64_t step) { loader_->seek(step); }                             ///< See loader.
  [[nodiscard]] std::string describe() const { return loader_->describe(); }        ///< See loader.

  /// This rank's micro-batches of one update; valid until the next call. @throws usage_error for a
  /// loader that mixes samples, since a target of one number cannot hold second labels.
  std::span<const data_batch<data_type, cpu>> next() {
    const auto read = loader_->next();
    data_.clear();
    micro_.clear();
    data_.reserve(read.size());
    const extent e = loader_->image();
    for (const batch<cpu>& b : read) {
      expects(b.label_weights.empty(),
              "torch_images: the loader mixes samples (mixup, cutmix), which torch_images does not "
              "pass on: give it a loader without mixing");
      auto* const pixels = const_cast<std::uint8_t*>(b.pixels.data);  // NOLINT: read as const
      auto* const labels = const_cast<std::int32_t*>(b.labels.data);  // NOLINT
      data_.push_back(
          {torch::from_blob(pixels, {b.count, e.channels, e.height, e.width}, torch::kByte),
           torch::from_blob(labels, {b.count}, torch::kInt).to(torch::kLong)});
      micro_.push_back({b, &data_.back()});
      micro_.back().pixels = {};
      micro_.back().labels = {};
    }
    return micro_;
  }

 private:
  Loader* loader_;
  std::vector<data_type> data_;
  std::vector<data_batch<data_type, cpu>> micro_;
};

}  // namespace cordee::inline CORDEE_ABI
