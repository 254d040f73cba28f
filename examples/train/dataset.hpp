// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A data set whose format is known when the program runs: one type, so that each trainer is
// compiled once.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cordee/data/dataset.hpp>
#include <cordee/data/input_statistics.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/shuffled_indices.hpp>

#include "settings.hpp"

namespace train {

class dataset {
 public:
  template <cordee::Dataset S>
  explicit dataset(S set, std::vector<std::string> class_names = {})
      : class_names_(class_names.empty() ? cordee::detail::data::class_names_of(set)
                                         : std::move(class_names)),
        source_(std::make_shared<of<S>>(std::move(set))) {}

  [[nodiscard]] cordee::extent image() const { return source_->image(); }
  [[nodiscard]] int classes() const { return source_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const { return class_names_; }
  [[nodiscard]] std::size_t size() const { return source_->size(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const { return source_->read(i, pixels); }
  int read(std::size_t i, std::span<std::uint8_t> pixels, cordee::random_sequence random) const {
    return source_->read(i, pixels, random);
  }
  [[nodiscard]] std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const {
    return source_->order(seed, epoch);
  }
  [[nodiscard]] cordee::input_statistics::reading_seconds reading() const {
    return source_->reading();
  }
  [[nodiscard]] std::string describe() const { return source_->describe(); }

 private:
  struct any {
    virtual ~any() = default;
    [[nodiscard]] virtual cordee::extent image() const = 0;
    [[nodiscard]] virtual int classes() const = 0;
    [[nodiscard]] virtual std::size_t size() const = 0;
    virtual int read(std::size_t i, std::span<std::uint8_t> pixels) const = 0;
    virtual int read(std::size_t i, std::span<std::uint8_t> pixels,
                     cordee::random_sequence random) const = 0;
    [[nodiscard]] virtual std::vector<std::uint32_t> order(std::uint64_t seed,
                                                           std::int64_t epoch) const = 0;
    [[nodiscard]] virtual cordee::input_statistics::reading_seconds reading() const = 0;
    [[nodiscard]] virtual std::string describe() const = 0;
  };
  template <class S>
  struct of : any {
    explicit of(S s) : set(std::move(s)) {}
    S set;

    [[nodiscard]] cordee::extent image() const override { return set.image(); }
    [[nodiscard]] int classes() const override { return set.classes(); }
    [[nodiscard]] std::size_t size() const override { return set.size(); }
    int read(std::size_t i, std::span<std::uint8_t> pixels) const override {
      return set.read(i, pixels);
    }
    int read(std::size_t i, std::span<std::uint8_t> pixels,
             cordee::random_sequence random) const override {
      if constexpr (requires { set.read(i, pixels, random); })
        return set.read(i, pixels, random);
      else
        return set.read(i, pixels);
    }
    [[nodiscard]] std::vector<std::uint32_t> order(std::uint64_t seed,
                                                   std::int64_t epoch) const override {
      return cordee::detail::data::order_of(set, seed, epoch);
    }
    [[nodiscard]] cordee::input_statistics::reading_seconds reading() const override {
      if constexpr (requires { set.reading(); })
        return set.reading();
      else
        return {};
    }
    [[nodiscard]] std::string describe() const override {
      if constexpr (requires { set.describe(); })
        return set.describe();
      else
        return cordee::concat(size(), " images in memory");
    }
  };

  std::vector<std::string> class_names_;
  std::shared_ptr<const any> source_;
};

/// What a run reads.
struct data_sources {
  dataset training, validation;
  std::vector<std::string> class_names;  // empty: not known
  bool photographs = false;              // decoded, in three channels
  cordee::normalize norm{};
};

/// Opens what the settings name, for a network that takes images of this extent. Throws error.
data_sources open_data(const settings& s, const cordee::extent& image);

/// The classes that the data have, for the choice of a network. Throws error.
int count_classes(const settings& s);

/// Image files, those of folders by name. Throws error for a folder without images.
std::vector<std::string> image_paths(const std::vector<std::string>& named);

/// The image files of a prediction, resized and cropped for the network. Throws error.
dataset open_predictions(const std::vector<std::string>& paths, const cordee::extent& image,
                         int classes);

/// The classes of a file of weights. Throws error.
int count_outputs(const std::string& weights);

/// What open_data gives, for --evaluate and --predict with the mean and the deviation that the file
/// of --load says; for --predict, where it says them, these and class names alone. Throws error.
data_sources open_sources(const settings& s, const cordee::extent& image, int classes);

}  // namespace train
