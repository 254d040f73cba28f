// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The file of an integer program: safetensors (io/tensor_format.hpp), with metadata
//
//   format     cordee.integer_network
//   version    2
//   rounding   single: products with fixed-point factors, see ops/requantize.hpp
//   program    {"image": [C, H, W], "steps": [{"layer": "convolution", "name": "conv1", …}, …]}
//   crc32c     checksums of the description and of each tensor, see infer/file/program_tensors.hpp
//
// and tensors
//
//   pixel_table                  U8   (C, 256)
//   logit_step                   F64  (1)
//   NAME.weight                  I8   (K, C, R, S), of the classifier I16 (classes, features);
//                                of 4 or 2 bits U8 (bytes), see infer/file/packed_bits.hpp
//   NAME.bias                    I32  (K), of the classifier I64
//   NAME.multiplier, NAME.shift  I32, I8  (K)
//
// Where the biases of a convolution are zeros and its factors powers of two, as before a batch norm
// that is not folded, its step's "shift_bits" is not 0, and beside the weights it has only
//
//   NAME.shift         U8 (bytes)  "shift_bits" a filter, signed
//
// Channel c of a batch norm has K = multiplier, B = addend 2^zeros, packed as well:
//
//   NAME.multiplier    U8 (bytes)  "multiplier_bits" a channel, signed
//   NAME.addend        U8 (bytes)  "addend_bits", signed
//   NAME.addend_zeros  U8 (bytes)  "zeros_bits", which may be 0: then all are
//
// A step's members are the integers of its layer; extents follow from the image's. The reader is
// infer/file/program_reader.hpp. Version 1 had biases and factors of every convolution, and K and B
// as I64; it is not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/file/parameter_widths.hpp>
#include <cordee/infer/file/program_tensors.hpp>
#include <cordee/infer/file/stored_parameters.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/io/json.hpp>
#include <cordee/io/save_tensors.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

inline constexpr std::string_view program_format = "cordee.integer_network", program_version = "2",
                                  program_rounding = "single";

/// Kinds of layers in the order of the types of integer_step::layer and listed_layer::problem, and
/// their names in a file.
struct layer_kind {
  enum index : std::size_t { convolution, max_pool, subsample, mean, classifier, batch_norm };
};
inline constexpr std::string_view layer_names[] = {"convolution", "max_pool",   "subsample",
                                                   "mean",        "classifier", "batch_norm"};
static_assert(std::size(layer_names) == std::variant_size_v<decltype(integer_step::layer)>);

/// A step in the description of a program.
struct step_members {
  std::string layer, name;
  std::vector<std::pair<std::string, std::int64_t>> numbers;

  explicit step_members(const integer_step& step)
      : layer(layer_names[step.layer.index()]), name(step.name) {
    numbers.emplace_back("input", step.input);
    std::visit([&](const auto& of) { add(of, step); }, step.layer);
  }
  explicit step_members(io::json_reader& json) {
    json.object([&](std::string key) {
      if (key == "layer" && layer.empty())
        layer = json.string();
      else if (key == "name" && name.empty())
        name = json.string();
      else
        numbers.emplace_back(std::move(key), json.integer());
    });
  }
  [[nodiscard]] std::string json() const {
    std::string text =
        concat("{\"layer\":", io::json_quoted(layer), ",\"name\":", io::json_quoted(name));
    for (const auto& [key, value] : numbers) text += concat(",\"", key, "\":", value);
    return text + "}";
  }

 private:
  void add(const integer_convolution& c, const integer_step& step) {
    numbers.insert(numbers.end(), {{"residual", step.residual},
                                   {"bytes", step.bytes},
                                   {"filters", c.problem.filters},
                                   {"window", c.problem.window},
                                   {"stride", c.problem.stride},
                                   {"padding", c.problem.padding},
                                   {"zero_point", c.zero_point},
                                   {"weight_bits", c.weight_bits},
                                   {"shift_bits", shift_width(c)},
                                   {"bias_shift", c.bias_shift},
                                   {"input_multiplier", c.input_factor.multiplier},
                                   {"input_shift", c.input_factor.shift},
                                   {"residual_multiplier", c.residual_factor.multiplier},
                                   {"residual_shift", c.residual_factor.shift},
                                   {"offset", c.offset},
                                   {"low", c.low},
                                   {"high", c.high}});
  }
  void add(const ops::max_pool_problem& p, const integer_step&) {
    numbers.insert(numbers.end(),
                   {{"window", p.window}, {"stride", p.stride}, {"padding", p.padding}});
  }
  void add(const ops::subsample_problem& p, const integer_step&) {
    numbers.insert(numbers.end(), {{"channels", p.out.channels}, {"stride", p.stride}});
  }
  void add(const mean_problem&, const integer_step&) {}
  void add(const integer_batch_norm& n, const integer_step& step) {
    const norm_widths bits(n);
    numbers.insert(numbers.end(), {{"residual", step.residual},
                                   {"bytes", step.bytes},
                                   {"shift", n.shift},
                                   {"multiplier_bits", bits.multiplier},
                                   {"addend_bits", bits.addend},
                                   {"zeros_bits", bits.zeros},
                                   {"residual_multiplier", n.residual_factor.multiplier},
                                   {"residual_shift", n.residual_factor.shift},
                                   {"offset", n.offset},
                                   {"low", n.low},
                                   {"high", n.high}});
  }
  void add(const integer_classifier& c, const integer_step&) {
    numbers.insert(numbers.end(), {{"classes", static_cast<std::int64_t>(c.classes)},
                                   {"accumulator_shift", c.shift}});
  }
};

/// Takes the members of a step, each once; throws error that names file, step and member.
class member_reader {
 public:
  member_reader(const std::string& path, std::size_t number, const step_members& step)
      : path_(path), number_(number), step_(step), used_(step.numbers.size()) {}

  [[noreturn]] void refuse(std::string_view reason) const {
    throw_bad_program(
        path_, concat("step ", number_, ", ", step_.layer, " \"", step_.name, "\": ", reason));
  }
  int take(std::string_view key, std::int64_t low, std::int64_t high) {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const auto& [name, value] = step_.numbers[i];
      if (name != key || used_[i]) continue;
      if (value < low || value > high)
        refuse(concat("\"", key, "\" is ", value, ", not within ", low, " .. ", high));
      used_[i] = true;
      return static_cast<int>(value);
    }
    refuse(concat("\"", key, "\" is missing"));
  }
  ops::fixed_point take_factor(const std::string& name) {
    const ops::fixed_point f{
        take(name + "_multiplier", 0, std::numeric_limits<std::int32_t>::max()),
        take(name + "_shift", -31, 31)};
    check(f, name);
    return f;
  }
  void check(ops::fixed_point f, std::string_view name) const {
    if (f != ops::fixed_point{} && (f.multiplier < 1 << 30 || f.shift < -31 || f.shift > 31))
      refuse(concat("the factor of ", name, " has multiplier ", f.multiplier, " and shift ",
                    f.shift, ", not 0 and 0, nor 2^30 .. 2^31 - 1 and -31 .. 31"));
  }
  void expect_all_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i]) refuse(concat("unexpected \"", step_.numbers[i].first, "\""));
  }

 private:
  const std::string& path_;
  std::size_t number_;
  const step_members& step_;
  std::vector<bool> used_;
};

/// Writes the file as a whole.
template <class Program>
void save_program(const std::string& path, const Program& program, const double& logit_step) {
  const auto channels = static_cast<std::size_t>(program.image.channels);
  std::vector<io::tensor_view> tensors{
      {"pixel_table", {channels, 256}, std::span<const std::uint8_t>(program.table)},
      {"logit_step", {1}, std::span(&logit_step, 1)}};
  const stored_parameters parameters(program);
  tensors.insert(tensors.end(), parameters.tensors().begin(), parameters.tensors().end());
  std::string steps;
  for (const integer_step& step : program.steps)
    steps += concat(steps.empty() ? "" : ",", step_members(step).json());
  const extent& image = program.image;
  const std::string description = concat("{\"image\":[", image.channels, ",", image.height, ",",
                                         image.width, "],\"steps\":[", steps, "]}");
  std::string sums = concat("{\"program\":", checksum_of(std::as_bytes(std::span(description))));
  for (const io::tensor_view& t : tensors)
    sums += concat(",", io::json_quoted(t.name), ":", checksum_of(t.bytes));
  io::save_tensors(path, tensors,
                   {{"format", std::string(program_format)},
                    {"version", std::string(program_version)},
                    {"rounding", std::string(program_rounding)},
                    {"program", description},
                    {"crc32c", sums + "}"}});
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
