// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a model that is not the library's, in forward order: of a file of weights
// (safetensors), or of a text with a line for each tensor.
//
//   # text after this sign, and empty lines, are ignored
//   fc1.weight  64x784              name, shape, and what it is: weight (default), bias, scale,
//   fc1.bias    64      bias        shift or statistic
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/nn/parameter_list.hpp>

namespace plan {

using namespace cordee;

class parameter_file {
 public:
  /// Throws error that names the line of what is wrong.
  static parameter_list read_text(std::istream& in) {
    parameter_file f;
    for (std::string line; std::getline(in, line);) {
      ++f.line_;
      if (line.size() > 511) f.refuse("longer than 511 characters: not a list of parameters");
      f.add_line(std::string_view(line).substr(0, line.find('#')));
    }
    return f.finish();
  }
  /// Integers, which are not trained, are left out; running_ statistics are found by their names,
  /// biases by their one side.
  static parameter_list read_weights(const cordee::detail::io::tensor_file& file) {
    parameter_file f;
    for (const auto& e : file.entries()) {
      if (!e.dtype.starts_with("F") && e.dtype != "BF16") continue;
      const auto last = e.name.substr(e.name.rfind('.') + 1);
      f.add(e.name, std::vector<std::int64_t>(e.shape.begin(), e.shape.end()),
            last.starts_with("running_") ? kind::statistic
            : e.shape.size() > 1         ? kind::weight
            : last == "bias"             ? kind::bias
                                         : kind::scale);
    }
    return f.finish();
  }
  static parameter_list read(const std::string& path) {
    if (path.ends_with(".safetensors"))
      return read_weights(cordee::detail::io::tensor_file::open(path));
    std::istringstream in(cordee::detail::io::read_text(path));
    return read_text(in);
  }

 private:
  static constexpr std::size_t most_tensors = 20'000;
  static constexpr double most_numbers = 1e15;

  void add_line(std::string_view line) {
    std::array<std::string_view, 4> words{};
    std::size_t count = 0;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) < line.size();) {
      const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      if (count < words.size()) words[count++] = line.substr(at, end - at);
      at = end;
    }
    if (count == 0) return;
    if (count < 2 || count > 3)
      refuse("name, shape and kind are expected: fc1.weight 64x784 weight");
    kind of = kind::weight;
    if (count == 3) of = kind_of(words[2]);
    add(std::string(words[0]), shape_of(words[1]), of);
  }
  kind kind_of(std::string_view word) const {
    const auto& names = cordee::detail::core::kind_names;
    for (std::size_t bit = 0; bit < names.size(); ++bit)
      if (word == names[bit]) return static_cast<kind>(1U << bit);
    refuse(concat("\"", word, "\" is none of weight, bias, scale, shift, statistic"));
  }
  std::vector<std::int64_t> shape_of(std::string_view word) const {
    std::vector<std::int64_t> shape;
    const char* at = word.data();
    const char* const end = at + word.size();
    for (;;) {
      std::int64_t side = 0;
      const auto [next, failure] = std::from_chars(at, end, side);
      if (failure != std::errc{} || (next != end && *next != 'x') || shape.size() > 8)
        refuse(concat("\"", word, "\" is no shape: 64x784, or 10 for a row"));
      shape.push_back(side);
      if (next == end) return shape;
      at = next + 1;
    }
  }
  void add(std::string name, const std::vector<std::int64_t>& shape, kind of) {
    if (list_.segments().size() == most_tensors)
      refuse(concat("more than ", most_tensors, " tensors"));
    double numbers = 1;
    for (const std::int64_t side : shape) numbers *= static_cast<double>(side);
    numbers_ += numbers;
    if (numbers_ > most_numbers) refuse("more than 1e15 numbers in all");
    try {
      list_.add(std::move(name), shape, of);
    } catch (const usage_error& e) {
      refuse(e.what());
    }
  }
  parameter_list finish() {
    if (cordee::detail::core::count_trainable(list_.segments()) == 0)
      throw error("the list has no tensor to train");
    return std::move(list_);
  }
  [[noreturn]] void refuse(std::string_view reason) const {
    throw error(line_ == 0 ? std::string(reason) : concat("line ", line_, ": ", reason));
  }

  parameter_list list_;
  double numbers_ = 0;
  int line_ = 0;
};

}  // namespace plan
