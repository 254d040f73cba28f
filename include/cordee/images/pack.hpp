// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Decodes and resizes images once, for many epochs:
//
//   pack(image_folder{"train"}, "train.packed", {.shorter_side = 256});
//   decoded_images training{packed_images{"train.packed"}, random_resized_crop{224}};
//
// A pixel needs 3 bytes: 256 x 341 pixels are 256 KiB, so ImageNet's training images are 300 GiB.
// Random crops are then cut out of the smaller image, and are coarser than those of the original.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/decoder.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/images/packed_images.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/resize.hpp>
#include <cordee/images/sample_error.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of `pack`.
struct pack_options {
  /// Shorter side of a packed image; smaller images are not resized. Unit: pixels. Range: 1 or
  /// more, else usage_error.
  int shorter_side = 256;
  /// Whether an image that cannot be decoded ends `pack` with sample_error, or is left out and
  /// counted.
  broken_image broken = broken_image::refuse;
  /// Decoder threads; 0: as many as the machine has. Range: 0 to 1024, else usage_error.
  unsigned threads = 0;
};

/// What `pack` wrote and left out.
struct pack_result {
  std::size_t images = 0, broken = 0;  ///< Images written, and left out.
  std::string first_broken;            ///< Why the first one left out is unusable.
};

namespace detail::images {

/// An image as it is packed.
struct packed_image {
  image_size size;
  std::vector<std::uint8_t> rgb;  // (height, width, 3)
  int label = 0;
  std::string broken;  // why it cannot be used; empty if it can
};

/// The size whose shorter side is `side`, the longer rounded down as by torchvision's Resize; the
/// image's own if that is smaller.
[[nodiscard]] constexpr image_size with_shorter_side(const image_size& s, int side) {
  const std::int64_t shorter = std::min(s.width, s.height);
  if (shorter <= side) return s;
  const auto of = [&](int n) { return static_cast<int>(std::int64_t{n} * side / shorter); };
  return {of(s.width), of(s.height)};
}

/// Decodes and resizes, one per thread.
class image_packer {
 public:
  template <EncodedDataset S>
  void run(const S& dataset, std::size_t i, int shorter_side, packed_image& out) {
    out.broken.clear();
    try {
      out.label = dataset.read(i, file_);
      const std::string name = dataset.name(i);
      const image_size from = decoder_.size(file_, name);
      out.size = with_shorter_side(from, shorter_side);
      const region whole{0, 0, out.size.width, out.size.height};
      const std::size_t plane =
          static_cast<std::size_t>(whole.width) * static_cast<std::size_t>(whole.height);
      out.rgb.resize(3 * plane);
      if (out.size == from) {
        decoder_.decode(file_, name, whole, 1, rgb_);
        std::copy(rgb_.begin(), rgb_.end(), out.rgb.begin());
        return;
      }
      const region source = resizer_.prepare(from, out.size, whole);
      decoder_.decode(file_, name, source, 1, rgb_);
      rgb_.resize(rgb_.size() + resizer::slack);
      planar_.resize(3 * plane);
      resizer_.resize(rgb_.span(), planar_.span());
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t k = 0; k < plane; ++k) out.rgb[3 * k + c] = planar_[c * plane + k];
    } catch (const sample_error& e) {
      out.broken = e.what();
    }
  }

 private:
  std::vector<std::uint8_t> file_;
  decoder decoder_;
  resizer resizer_;
  core::pod_vector<std::uint8_t> rgb_, planar_;
};

}  // namespace detail::images

/// Writes a data set's images to one file, in order, with labels and names. Images left out have no
/// index: later ones move up. @throws usage_error for an option out of its range; sample_error for
/// a broken image that is refused; error for a file that cannot be read or written. In these cases
/// there is no new file.
template <EncodedDataset S>
pack_result pack(const S& dataset, const std::string& path, pack_options options = {}) {
  using namespace detail::images;
  expects(options.shorter_side > 0, "pack: the shorter side has at least 1 pixel");
  expects(options.threads <= 1024, "pack: .threads is within 0 .. 1024");
  const std::size_t threads =
      options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<image_packer> packers(threads);
  std::vector<packed_image> images(16 * threads);  // made at once, then written in their order
  std::vector<std::exception_ptr> failures(threads);
  packed_writer writer(path);
  pack_result result;
  for (std::size_t first = 0; first < dataset.size(); first += images.size()) {
    const std::size_t count = std::min(images.size(), dataset.size() - first);
    const auto make = [&](std::size_t t) {
      try {
        for (std::size_t k = t; k < count; k += threads)
          packers[t].run(dataset, first + k, options.shorter_side, images[k]);
      } catch (...) {
        failures[t] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> others;
      for (std::size_t t = 1; t < threads; ++t) others.emplace_back(make, t);
      make(0);
    }
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    for (std::size_t k = 0; k < count; ++k) {
      const packed_image& image = images[k];
      if (image.broken.empty()) {
        writer.add(image.size, image.rgb, image.label, dataset.name(first + k));
        ++result.images;
      } else if (options.broken == broken_image::refuse) {
        throw sample_error(image.broken);
      } else if (result.broken++ == 0) {
        result.first_broken = image.broken;
      }
    }
  }
  writer.finish(dataset.classes());
  return result;
}

}  // namespace cordee::inline CORDEE_ABI
