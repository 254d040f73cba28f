// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The formats of data, each a function.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <unistd.h>

#include <cordee/data/cifar.hpp>
#include <cordee/data/idx.hpp>
#include <cordee/data/split.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/image_folder.hpp>
#include <cordee/images/packed_images.hpp>
#include <cordee/images/tfrecord.hpp>
#include <cordee/io/file.hpp>
#if defined(WITH_WEBDATASET)
#include <cordee/images/webdataset.hpp>
#endif

#include "check.hpp"
#include "dataset.hpp"

namespace train {
namespace {

using namespace cordee;

/// The lines of a file, none if there is no such file.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  if (!std::filesystem::exists(path)) return lines;
  std::istringstream file(cordee::detail::io::read_text(path));
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

data_sources open_idx(const settings& s) {
  const auto file = [&](const char* name) { return s.data + "/" + name; };
  const auto exists = [&](const std::string& path) {
    return std::filesystem::exists(path) || std::filesystem::exists(path + ".gz");
  };
  const idx test{file("t10k-images-idx3-ubyte"), file("t10k-labels-idx1-ubyte")};
  if (exists(file("train-images-idx3-ubyte")))
    return {dataset{idx{file("train-images-idx3-ubyte"), file("train-labels-idx1-ubyte")}},
            dataset{test},
            {}};
  const auto [training, held_out] = split(test, s.held_out, s.seed);
  return {dataset{training}, dataset{held_out}, {}};
}

data_sources open_cifar10(const settings& s) {
  const std::vector<std::string> names = lines_of(s.data + "/batches.meta.txt");
  return {dataset{cifar10{s.data, cifar10::train}, names},
          dataset{cifar10{s.data, cifar10::test}, names}, names};
}

data_sources open_synthetic(const settings& s, const extent& image) {
  const int classes = s.classes > 0 ? s.classes : 10;
  const auto [training, held_out] =
      split(synthetic{image, {classes}, 640, s.seed}, s.held_out, s.seed);
  return {dataset{training}, dataset{held_out}, {}};
}

broken_image broken_option(const settings& s) {
  return s.skip_broken ? broken_image::skip : broken_image::refuse;
}

image_folder open_folder(const settings& s, const std::string& path) {
  return image_folder{path, {.other_formats = broken_option(s)}};
}

/// Encoded images; without validation data a part of the training data is held out.
template <EncodedDataset S, class Open>
data_sources open_photographs(const settings& s, const extent& image, const Open& open,
                              std::vector<std::string> class_names) {
  if (image.channels != 3 || image.height != image.width)
    throw error(concat("--format ", s.format, ": photographs become squares of three channels, ",
                       "the network takes ", describe(image)));
  const random_resized_crop crop{.size = image.width};
  const resize_center_crop center{image.width * 8 / 7, image.width};
  const decoding_options decoding{.broken = broken_option(s), .scaled_decoding = s.scaled_decoding};
  const S training = open(s.data);
  if (!s.validation_data.empty())
    return {dataset{decoded_images{training, crop, decoding}},
            dataset{decoded_images{open(s.validation_data), center, decoding}},
            std::move(class_names), true};
  // The same split of the same files, each part cropped in its own way.
  return {dataset{split(decoded_images{training, crop, decoding}, s.held_out, s.seed).training},
          dataset{split(decoded_images{training, center, decoding}, s.held_out, s.seed).validation},
          std::move(class_names), true};
}

}  // namespace

void write_settings(const settings& s) {
  const std::string path = s.output + "/settings.ini";
  std::ofstream file(path);
  file.write(s.text.data(), static_cast<std::streamsize>(s.text.size())).flush();
  if (!file) throw error(concat("cannot write ", path, "; make room, or give another --output"));
}

void make_output_folder(const settings& s) {
  std::error_code failure;
  std::filesystem::create_directories(s.output, failure);
  const bool is_folder = std::filesystem::is_directory(s.output);
  if (!is_folder || ::access(s.output.c_str(), W_OK | X_OK) != 0)
    throw wrong_option(concat("--output ", s.output, ": ",
                              std::filesystem::exists(s.output) && !is_folder
                                  ? "a file has this name"
                              : failure ? failure.message()
                                        : "this folder cannot be written",
                              "; name a folder that is or can be made"));
}

int count_classes(const settings& s) {
  if (s.classes > 0) return s.classes;
  if (!s.predict.empty()) return count_outputs(s.load);
  if (s.format == "idx" || s.format == "cifar10" || s.format == "synthetic") return 10;
  if (s.format == "folder") return open_folder(s, s.data).classes();
  if (s.format == "packed") return packed_images{s.data}.classes();
  throw error(
      concat("--format ", s.format, " does not say how many classes there are: give --classes"));
}

namespace {

data_sources open_format(const settings& s, const extent& image) {
  if (s.format == "synthetic") return open_synthetic(s, image);
  if (s.format == "idx") return open_idx(s);
  if (s.format == "cifar10") return open_cifar10(s);
  if (s.format == "folder")
    return open_photographs<image_folder>(
        s, image, [&](const std::string& path) { return open_folder(s, path); },
        open_folder(s, s.data).class_names());
  if (s.format == "packed")
    return open_photographs<packed_images>(
        s, image, [](const std::string& path) { return packed_images{path}; }, {});
  if (s.format == "tfrecord")
    return open_photographs<tfrecord>(
        s, image,
        [&](const std::string& path) {
          return tfrecord{
              path, {.classes = s.classes, .first_label = s.first_label < 0 ? 1 : s.first_label}};
        },
        {});
#if defined(WITH_WEBDATASET)
  if (s.format == "webdataset")
    return open_photographs<webdataset>(s, image,
                                        [&](const std::string& path) {
                                          return webdataset{
                                              path,
                                              {.classes = s.classes,
                                               .first_label = std::max(s.first_label, 0),
                                               .broken = broken_option(s)}};
                                        },
                                        {});
#else
  if (s.format == "webdataset")
    throw error("--format webdataset: this program was built without libarchive (libarchive-dev)");
#endif
  throw error(concat("--format ", s.format, " is not known; try --help"));
}

}  // namespace

data_sources open_data(const settings& s, const extent& image) {
  data_sources data = open_format(s, image);
  if (data.training.image() != image)
    throw error(concat("--format ", s.format, " has images of ", describe(data.training.image()),
                       ", ", s.network, " is compiled for ", describe(image)));
  data.norm = data.photographs ? normalize::imagenet() : normalize::measured(data.training);
  return data;
}

}  // namespace train
