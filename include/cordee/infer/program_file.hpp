// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The file of an integer program: safetensors (io/tensor_format.hpp), with metadata
//
//   format     cordee.integer_network
//   version    1
//   rounding   single: products with fixed-point factors, see ops/requantize.hpp
//   program    {"image": [C, H, W], "steps": [{"layer": "convolution", "name": "conv1", …}, …]}
//   crc32c     checksums of the description and of each tensor, see infer/program_tensors.hpp
//
// and tensors
//
//   pixel_table                  U8   (C, 256)
//   logit_step                   F64  (1)
//   NAME.weight                  I8   (K, C, R, S), of the classifier I16 (classes, features);
//                                of 4 or 2 bits U8 (bytes), see infer/packed_bits.hpp
//   NAME.bias                    I32  (K), of the classifier I64
//   NAME.multiplier, NAME.shift  I32, I8  (K)
//   NAME.multiplier, NAME.addend I64  (C), of a batch norm
//
// A step's members are the integers of its layer; extents follow from the image's. The reader is
// infer/program_reader.hpp.
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
#include <cordee/infer/integer_program.hpp>
#include <cordee/infer/packed_bits.hpp>
#include <cordee/infer/program_tensors.hpp>
#include <cordee/io/json.hpp>
#include <cordee/io/save_tensors.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

inline constexpr std::string_view program_format = "cordee.integer_network", program_version = "1",
                                  program_rounding = "single";

/// (K, C, R, S)
inline std::vector<std::size_t> weight_shape(const convolution_problem& p) {
  const auto window = static_cast<std::size_t>(p.window);
  return {static_cast<std::size_t>(p.filters), static_cast<std::size_t>(p.in.channels), window,
          window};
}

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
    numbers.insert(numbers.end(), {{"residual", step.residual},
                                   {"bytes", step.bytes},
                                   {"shift", n.shift},
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
  std::string steps;
  std::vector<std::vector<std::int32_t>> multipliers(program.steps.size());
  std::vector<std::vector<std::int8_t>> shifts(program.steps.size());
  std::vector<std::vector<std::uint8_t>> packed(program.steps.size());
  const auto channels = static_cast<std::size_t>(program.image.channels);
  std::vector<io::tensor_view> tensors{
      {"pixel_table", {channels, 256}, std::span<const std::uint8_t>(program.table)},
      {"logit_step", {1}, std::span(&logit_step, 1)}};
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const integer_step& step = program.steps[i];
    steps += concat(steps.empty() ? "" : ",", step_members(step).json());
    const auto add = [&](const auto& layer, const std::vector<std::size_t>& shape, int bits) {
      for (const ops::fixed_point& f : layer.factors) {
        multipliers[i].push_back(f.multiplier);
        shifts[i].push_back(static_cast<std::int8_t>(f.shift));
      }
      const std::size_t filters = shape[0];
      if constexpr (sizeof layer.weights[0] == 1)
        if (bits < 8) packed[i] = pack_bits(layer.weights, bits);
      if (bits < 8)
        tensors.emplace_back(step.name + ".weight", std::vector{packed[i].size()},
                             std::span<const std::uint8_t>(packed[i]));
      else
        tensors.emplace_back(step.name + ".weight", shape, std::span(std::as_const(layer.weights)));
      tensors.emplace_back(step.name + ".bias", std::vector{filters},
                           std::span(std::as_const(layer.bias)));
      tensors.emplace_back(step.name + ".multiplier", std::vector{filters},
                           std::span<const std::int32_t>(multipliers[i]));
      tensors.emplace_back(step.name + ".shift", std::vector{filters},
                           std::span<const std::int8_t>(shifts[i]));
    };
    if (const auto* c = std::get_if<integer_convolution>(&step.layer))
      add(*c, weight_shape(c->problem), c->weight_bits);
    else if (const auto* l = std::get_if<integer_classifier>(&step.layer))
      add(*l, {l->classes, l->features}, 16);
    else if (const auto* n = std::get_if<integer_batch_norm>(&step.layer))
      for (const auto& [name, numbers] :
           {std::pair(".multiplier", &n->multiplier), std::pair(".addend", &n->addend)})
        tensors.emplace_back(step.name + name, std::vector{numbers->size()}, std::span(*numbers));
  }
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
