// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a data set of pixels from one of encoded images.
//
//   decoded_images training{image_folder{"train"}, random_resized_crop{224}};
//   decoded_images held_out{image_folder{"val"}, resize_center_crop{256, 224}};
//
//   bytes -> size -> plan -> decode the rows and columns it needs -> resize -> (3, height, width)
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/data/input_statistics.hpp>
#include <cordee/images/decoder.hpp>
#include <cordee/images/decoding_state.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/images/resampling.hpp>
#include <cordee/images/resize.hpp>
#include <cordee/images/sample_error.hpp>

namespace cordee::inline CORDEE_ABI {

/// How images are decoded, and how broken ones are handled.
struct decoding_options {
  /// How images that cannot be decoded are handled. With `refuse`, `read` throws sample_error,
  /// which names the image; with `skip`, the next readable image in index order replaces it,
  /// including its label, on all ranks alike. If the data set is split, that image may belong to
  /// the other part. The first one is reported at once, the counts by reason when the last copy of
  /// the data set is destroyed.
  broken_image broken = broken_image::refuse;
  /// Whether a JPEG is decoded at 1/2, 1/4 or 1/8 of its size if the part cut out of it is then
  /// still no smaller than the result. Faster, but pixels differ from those of a full decode.
  bool scaled_decoding = false;
  /// Size of the largest image that is decoded. Unit: pixels. Range: any. Larger ones are rejected
  /// with sample_error before memory is allocated for them, and so are images of several passes
  /// (progressive JPEG, interlaced PNG) if passes times pixels exceed three times this.
  std::uint64_t most_pixels = detail::images::decoder::default_most_pixels;
};

namespace detail::images {

/// The largest scale of 1, 2, 4, 8 at which `plan.source` is still at least as large as it becomes.
constexpr int scale_of(const resampling_plan& plan) {
  int scale = 8;
  while (scale > 1 && (plan.source.width / scale < plan.resized.width ||
                       plan.source.height / scale < plan.resized.height))
    scale /= 2;
  return scale;
}

/// `r` in an image reduced by 1/scale: sides to the nearest pixel, within the image. Requires that
/// `r` has at least 8 pixels each way where scale > 1.
constexpr region scaled(const region& r, image_size reduced_image, int scale) {
  if (scale == 1) return r;
  const auto nearest = [scale](int n) { return (n + scale / 2) / scale; };
  const int left = nearest(r.left), top = nearest(r.top);
  return {left, top, std::min(nearest(r.left + r.width), reduced_image.width) - left,
          std::min(nearest(r.top + r.height), reduced_image.height) - top};
}

/// Writes (3, plan.window.height, plan.window.width). Throws sample_error for a broken image.
template <Resampling R>
void decode_sample(decoding_buffers& b, const std::string& name, const R& resampling,
                   random_sequence random, bool scaled_decoding, std::span<std::uint8_t> pixels,
                   decoding_state::clock::time_point& decoded) {
  const image_size image = b.decode.size(b.file, name);
  const resampling_plan plan = resampling(image, random);
  constexpr int longest = 1 << 20;
  if (plan.resized.width > longest || plan.resized.height > longest)
    throw sample_error(concat(name, ": ", image.width, " x ", image.height,
                              " pixels would be resized to a side of more than ", longest));
  const int scale = scaled_decoding && decoder::can_scale(b.file) ? scale_of(plan) : 1;
  const region source = scaled(plan.source, reduced(image, scale), scale);
  const region needed = b.resize.prepare({source.width, source.height}, plan.resized, plan.window);
  b.decode.decode(b.file, name,
                  {source.left + needed.left, source.top + needed.top, needed.width, needed.height},
                  scale, b.rgb);
  decoded = decoding_state::clock::now();
  b.rgb.resize(b.rgb.size() + resizer::slack);
  b.resize.resize(b.rgb.span(), pixels);
}

}  // namespace detail::images

/// A `Dataset` of images that are decoded when read. Samples are drawn at random if `resampling`
/// does so: the loader passes each the sequence of (seed, epoch, sample). `read` without a sequence
/// uses that of seed 0, epoch 0.
template <EncodedDataset S, Resampling R = random_resized_crop>
class decoded_images {
 public:
  /// Does not decode yet. @throws usage_error for an option of `resampling` out of its range.
  explicit decoded_images(S encoded, R resampling = {}, decoding_options options = {})
      : encoded_(std::move(encoded)),
        resampling_(std::move(resampling)),
        options_(options),
        state_(std::make_shared<detail::images::decoding_state>(options.most_pixels)) {
    resampling_({1, 1}, random_of(0));  // refuses wrong options now
  }

  /// 3 x height x width of the output of `resampling`.
  [[nodiscard]] extent image() const {
    const image_size size = resampling_.output();
    return {3, size.height, size.width};
  }
  /// Classes of the encoded data set.
  [[nodiscard]] int classes() const { return encoded_.classes(); }
  /// Samples of the encoded data set, including broken ones.
  [[nodiscard]] std::size_t size() const { return encoded_.size(); }
  /// Names by label; empty if the encoded data set has no names.
  [[nodiscard]] std::vector<std::string> class_names() const {
    return detail::data::class_names_of(encoded_);
  }
  /// Name of sample i in the encoded data set.
  [[nodiscard]] std::string name(std::size_t i) const { return encoded_.name(i); }
  [[nodiscard]] const S& encoded() const { return encoded_; }  ///< The encoded data set.
  /// As passed to the constructor.
  [[nodiscard]] const R& resampling() const { return resampling_; }

  /// See Dataset. @throws as the overload below.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return read(i, pixels, random_of(i));
  }
  /// Reads, decodes and resamples image i, and returns its label. @throws usage_error for an index
  /// of size() or above, or a buffer of another size; sample_error for a broken image that is
  /// refused; error if it is skipped and no other can be decoded.
  int read(std::size_t i, std::span<std::uint8_t> pixels, random_sequence random) const {
    expects(i < size(), "decoded_images: the index is beyond the data set");
    expects(pixels.size() == image().size(),
            "decoded_images: the buffer is not of the image's size");
    const detail::images::borrowed_buffers buffers(*state_);
    if (options_.broken == broken_image::refuse) return make(*buffers, i, pixels, random);
    for (std::size_t k = 0; k < size(); ++k) {
      const std::size_t at = (i + k) % size();
      try {
        return make(*buffers, at, pixels, random);
      } catch (const sample_error& e) {
        state_->record_broken(at, encoded_.name(at), e.what());
      }
    }
    throw error("decoded_images: no image of the data set can be decoded");
  }

  /// Returns the encoded image's label without decoding it. For a skipped broken image `read`
  /// returns its successor's label; this function returns its own, since what this copy has found
  /// broken so far must not decide how `split` divides the data.
  [[nodiscard]] int label(std::size_t i) const {
    if constexpr (detail::data::Labelled<S>) {
      return encoded_.label(i);
    } else {
      const detail::images::borrowed_buffers buffers(*state_);
      return encoded_.read(i, (*buffers).file);
    }
  }
  /// Sample order of the encoded data set.
  [[nodiscard]] std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const
    requires detail::data::Ordered<S>
  {
    return encoded_.order(seed, epoch);
  }

  /// Seconds of all copies, summed.
  [[nodiscard]] input_statistics::reading_seconds reading() const { return state_->seconds(); }
  /// Messages of the broken images that any copy has skipped so far, by index.
  [[nodiscard]] std::map<std::size_t, std::string> broken() const { return state_->broken(); }
  /// Counts of broken images by reason; empty if there are none.
  [[nodiscard]] std::string describe_broken() const { return state_->describe_broken(); }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    std::string text = concat(
        resampling_.describe(),
        options_.scaled_decoding ? ", JPEGs decoded at a reduced scale where it suffices" : "",
        options_.broken == broken_image::skip ? ", broken images replaced by the next"
                                              : ", a broken image ends the run");
    if constexpr (requires { encoded_.describe(); }) text = concat(encoded_.describe(), "; ", text);
    return text;
  }

 private:
  static random_sequence random_of(std::size_t i) { return {0, purpose::resampling, 0, i}; }

  int make(detail::images::decoding_buffers& buffers, std::size_t i, std::span<std::uint8_t> pixels,
           random_sequence random) const {
    using clock = detail::images::decoding_state::clock;
    const clock::time_point begin = clock::now();
    const int label = encoded_.read(i, buffers.file);
    const clock::time_point read = clock::now();
    clock::time_point decoded = read;
    detail::images::decode_sample(buffers, encoded_.name(i), resampling_, random,
                                  options_.scaled_decoding, pixels, decoded);
    state_->add(begin, read, decoded, clock::now());
    return label;
  }

  S encoded_;
  R resampling_;
  decoding_options options_;
  std::shared_ptr<detail::images::decoding_state> state_;
};

}  // namespace cordee::inline CORDEE_ABI
