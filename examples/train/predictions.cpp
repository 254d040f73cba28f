// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What --predict reads: image files, and what a file of weights says of itself.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include <cordee/data/synthetic.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/image_folder.hpp>
#include <cordee/io/file.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/train/input/data_description.hpp>

#include "dataset.hpp"

namespace train {
namespace {

using namespace cordee;
namespace files = std::filesystem;

/// Encoded images of single files, in the order given; every label is 0.
struct image_files {
  std::vector<std::string> paths;
  int class_count;

  [[nodiscard]] int classes() const { return class_count; }
  [[nodiscard]] std::size_t size() const { return paths.size(); }
  [[nodiscard]] std::string name(std::size_t i) const { return paths[i]; }
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    const detail::io::input_file file(paths[i]);
    detail::io::resize_for(bytes, file.size(), file.path());
    file.read_at(0, bytes);
    return 0;
  }
};

/// The luma of images of three channels, as Pillow's "L" and JPEG have it.
template <class S>
struct gray_images {
  S colored;

  [[nodiscard]] extent image() const {
    const extent e = colored.image();
    return {1, e.height, e.width};
  }
  [[nodiscard]] int classes() const { return colored.classes(); }
  [[nodiscard]] std::size_t size() const { return colored.size(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    const std::size_t n = pixels.size();
    std::vector<std::uint8_t> rgb(3 * n);
    const int label = colored.read(i, rgb);
    for (std::size_t k = 0; k < n; ++k)
      pixels[k] = static_cast<std::uint8_t>(
          (299 * rgb[k] + 587 * rgb[n + k] + 114 * rgb[2 * n + k] + 500) / 1000);
    return label;
  }
};

}  // namespace

std::vector<std::string> image_paths(const std::vector<std::string>& named) {
  std::vector<std::string> paths;
  for (const std::string& name : named) {
    if (!files::is_directory(name)) {  // what cannot be read is reported in its turn
      paths.push_back(name);
      continue;
    }
    const std::size_t first = paths.size();
    for (const auto& entry : files::recursive_directory_iterator(name))
      if (entry.is_regular_file() && detail::images::is_image_name(entry.path().native()))
        paths.push_back(entry.path().native());
    if (paths.size() == first)
      throw error(concat("--predict ", name, ": no image (.jpg, .jpeg, .png) in this folder"));
    std::sort(paths.begin() + static_cast<std::ptrdiff_t>(first), paths.end());
  }
  return paths;
}

dataset open_predictions(const std::vector<std::string>& paths, const extent& image, int classes) {
  if ((image.channels != 3 && image.channels != 1) || image.height != image.width)
    throw error(concat("--predict reads square images of three channels or one, the network takes ",
                       describe(image)));
  // As for evaluation: photographs lose a border, small images are taken as they are.
  const int resized = image.width < 112 ? image.width : image.width * 8 / 7;
  decoded_images images{image_files{paths, classes}, resize_center_crop{resized, image.width}};
  if (image.channels == 3) return dataset{std::move(images)};
  return dataset{gray_images<decltype(images)>{std::move(images)}};
}

int count_outputs(const std::string& weights) {
  const auto file = detail::io::tensor_file::open(weights);
  const auto* bias = file.find("fc.bias");
  if (bias == nullptr || bias->shape.size() != 1)
    throw error(concat("--load ", weights,
                       ": no tensor fc.bias, as residual networks have; give a "
                       "file that this program or torchvision saved"));
  return static_cast<int>(bias->shape[0]);
}

data_sources open_sources(const settings& s, const extent& image, int classes) {
  const bool predicts = !s.predict.empty();
  if (!predicts && !s.evaluate) return open_data(s, image);
  const auto known = detail::train::read_description(
      detail::io::tensor_file::open(s.load).metadata(), image.channels, classes, true, s.load);
  const bool has_data = !s.data.empty() || s.format == "synthetic";
  if (!known.has_normalization && !has_data)
    throw error(concat("--load ", s.load,
                       " does not say the mean and the deviation of the images that it was trained "
                       "on: give these images, as --data, beside --predict"));
  // The loader that a trainer's types need reads nothing of `none`.
  const dataset none{synthetic{image, {classes}, 1, s.seed}};
  const bool reads_data = s.evaluate || !known.has_normalization;
  data_sources data = reads_data ? open_data(s, image) : data_sources{none, none, {}};
  if (predicts && !known.class_names.empty())
    data.class_names = detail::train::to_vector(known.class_names);
  for (std::size_t c = 0; known.has_normalization && c < static_cast<std::size_t>(image.channels);
       ++c) {
    data.norm.mean[c] = static_cast<double>(known.normalization.mean[c]);
    data.norm.deviation[c] = 1 / static_cast<double>(known.normalization.scale[c]);
  }
  return data;
}

}  // namespace train
