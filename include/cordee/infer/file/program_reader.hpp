// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads an integer program from its file (infer/file/program_file.hpp). The file is believed after
// all that a run relies on has been checked: extents and what steps read, sizes before memory, and
// the ranges of numbers that keep every sum within its integer, as infer/program/integer_layers.hpp
// has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/file/parameter_reader.hpp>
#include <cordee/infer/file/program_file.hpp>
#include <cordee/infer/file/program_tensors.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/infer/program/program_limits.hpp>
#include <cordee/io/json.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// A program, and the number that one step of a logit stands for.
struct stored_program {
  integer_program program;
  double logit_step = 1;
};

/// Throws error that names the file and the part of it that is refused.
class program_reader {
 public:
  explicit program_reader(const std::string& path, checksums mode = checksums::verified)
      : file_(path, mode) {}

  stored_program read() {
    file_.expect_metadata("format", program_format);
    file_.expect_version(program_version);
    file_.expect_metadata("rounding", program_rounding);
    const std::vector<step_members> steps = read_description();
    const extent image = program_.image;
    if (image.channels > 4 || !program_limits::has_size(image))
      refuse(concat("its images are ", describe(image), "; 1 to 4 channels are possible"));
    file_.read("pixel_table", {static_cast<std::size_t>(image.channels), 256}, program_.table);
    std::vector<double> logit_step;
    file_.read("logit_step", {1}, logit_step);
    if (!(logit_step[0] > 0 && logit_step[0] <= std::numeric_limits<double>::max()))
      refuse("tensor \"logit_step\" is not a positive number");
    if (steps.empty() || steps.size() > program_limits::steps)
      refuse(concat("its program has ", steps.size(), " steps, not 1 to ", program_limits::steps));
    for (const step_members& s : steps) {
      add_step(s);
      if (s.layer == layer_names[layer_kind::classifier] && program_.steps.size() != steps.size())
        refuse("a step follows the classifier");
    }
    if (!std::holds_alternative<integer_classifier>(program_.steps.back().layer))
      refuse("its program does not end in a classifier");
    file_.expect_all_read();
    if (const auto reason = exceeded_limit(program_)) refuse(*reason);
    return {std::move(program_), logit_step[0]};
  }

 private:
  [[noreturn]] void refuse(std::string_view reason) const { file_.refuse(reason); }

  std::vector<step_members> read_description() {
    io::json_reader json(file_.description(), file_.path() + ": \"program\"", 0);
    std::vector<step_members> steps;
    std::vector<std::int64_t> image;
    json.object([&](const std::string& key) {
      if (key == "image" && image.empty())
        json.array([&] { image.push_back(json.integer()); });
      else if (key == "steps" && steps.empty())
        json.array([&] { steps.emplace_back(json); });
      else
        json.refuse(concat("unexpected \"", key, "\""));
    });
    json.expect_end();
    if (image.size() != 3) refuse("its program has no \"image\" of three numbers");
    for (std::int64_t& n : image)
      if (n < 0 || n > program_limits::side) n = 0;
    program_.image = {static_cast<int>(image[0]), static_cast<int>(image[1]),
                      static_cast<int>(image[2])};
    return steps;
  }

  void add_step(const step_members& s) {
    const int k = static_cast<int>(program_.steps.size());
    member_reader m(file_.path(), program_.steps.size(), s);
    integer_step step{.layer = {}, .name = s.name};
    // Where the first step reads the image, another one would read memory that is used again.
    step.input = m.take("input", k == 0 ? -1 : 0, k - 1);
    const int in_bytes = step.input < 0 ? 1 : at(step.input).bytes;
    const extent in = step.input < 0 ? program_.image : at(step.input).out();
    const auto expect_bytes = [&](bool holds) {
      if (!holds) m.refuse(concat("it cannot read integers of ", in_bytes, " bytes"));
    };
    if (s.layer == layer_names[layer_kind::convolution]) {
      add_convolution(m, in, step);
    } else if (s.layer == layer_names[layer_kind::max_pool]) {
      ops::max_pool_problem p{.in = in};
      p.window = m.take("window", 1, ops::max_pool_problem::largest_window);
      p.stride = m.take("stride", 1, program_limits::side);
      p.padding = m.take("padding", 0, p.window / 2);
      if (std::min(in.height, in.width) + 2 * p.padding < p.window)
        m.refuse("its window is larger than its input");
      step.layer = p;
      step.bytes = in_bytes;
    } else if (s.layer == layer_names[layer_kind::subsample]) {
      expect_bytes(in_bytes >= 2);
      const int channels = m.take("channels", in.channels, program_limits::channels),
                stride = m.take("stride", 1, program_limits::side);
      step.layer = ops::subsample_problem{
          in,
          {channels, (in.height + stride - 1) / stride, (in.width + stride - 1) / stride},
          stride};
      step.bytes = in_bytes;
    } else if (s.layer == layer_names[layer_kind::mean]) {
      expect_bytes(in_bytes == 4);
      step.layer = mean_problem{in};
      step.bytes = 4;
    } else if (s.layer == layer_names[layer_kind::classifier]) {
      expect_bytes(in_bytes == 4);
      if (in.pixels() != 1) m.refuse("its input is more than one pixel");
      add_classifier(m, in, step);
      step.bytes = 4;
    } else if (s.layer == layer_names[layer_kind::batch_norm]) {
      add_batch_norm(m, in, step);
    } else {
      m.refuse("no such layer");
    }
    m.expect_all_used();
    if (!program_limits::has_size(step.out()))
      m.refuse(concat("its output ", describe(step.out()), " is too large or empty"));
    program_.steps.push_back(std::move(step));
  }

  void add_convolution(member_reader& m, const extent& in, integer_step& step) {
    integer_convolution c;
    convolution_problem& p = c.problem;
    p.in = in;
    p.filters = m.take("filters", 1, program_limits::channels);
    p.window = m.take("window", 1, 181);  // its square is at most most_terms
    p.stride = m.take("stride", 1, program_limits::side);
    p.padding = m.take("padding", 0, p.window - 1);
    if (std::min(in.height, in.width) + 2 * p.padding < p.window)
      m.refuse("its window is larger than its input");
    if (std::int64_t{in.channels} * p.window * p.window > most_terms)
      m.refuse(concat("its sums of more than ", most_terms, " products may not fit 32 bits"));
    add_output(m, p.out(), step, c);
    c.zero_point = m.take("zero_point", 0, 255);
    c.weight_bits = m.take("weight_bits", 2, 8);
    if (c.weight_bits != 2 && c.weight_bits != 4 && c.weight_bits != 8)
      m.refuse(concat("\"weight_bits\" is ", c.weight_bits, ", not 2, 4 or 8"));
    c.bias_shift = m.take("bias_shift", least_bias_shift, 30);
    c.input_factor = m.take_factor("input");
    expect_new_name(m, step.name);
    parameter_reader(file_, m, step.name).read(c);
    step.layer = std::move(c);
  }

  /// What is added, and the limits of the output.
  template <class Layer>
  void add_output(member_reader& m, const extent& out, integer_step& step, Layer& layer) {
    step.residual = m.take("residual", -1, static_cast<std::int64_t>(program_.steps.size()) - 1);
    step.bytes = m.take("bytes", 1, 4);
    if (step.bytes == 2 || step.bytes == 3) m.refuse(concat("\"bytes\" is ", step.bytes));
    if (step.residual >= 0 && (at(step.residual).bytes == 1 || at(step.residual).out() != out))
      m.refuse("what its \"residual\" names cannot be added");
    layer.residual_factor = m.take_factor("residual");
    layer.offset = m.take("offset", 0, 255);
    const std::int32_t largest = step.bytes == 1 ? 255 : wide_limit;
    layer.low = m.take("low", step.bytes == 1 ? 0 : -wide_limit, largest);
    layer.high = m.take("high", layer.low, largest);
  }

  void add_batch_norm(member_reader& m, const extent& in, integer_step& step) {
    const auto* const c =
        step.input < 0 ? nullptr : std::get_if<integer_convolution>(&at(step.input).layer);
    if (c == nullptr || at(step.input).bytes != 4 || c->low < -norm_limit || c->high > norm_limit)
      m.refuse("its input is not that of a convolution with outputs of 18 bits in 32");
    integer_batch_norm n;
    n.in = in;
    add_output(m, in, step, n);
    n.shift = m.take("shift", 0, 61);
    expect_new_name(m, step.name);
    parameter_reader(file_, m, step.name).read(n);
    step.layer = std::move(n);
  }

  void add_classifier(member_reader& m, const extent& in, integer_step& step) {
    integer_classifier c;
    c.features = in.size();
    if (c.features > most_terms)
      m.refuse(concat("its sums of more than ", most_terms, " products may not fit 32 bits"));
    c.classes = static_cast<std::size_t>(m.take("classes", 1, program_limits::channels));
    c.shift = m.take("accumulator_shift", 0, 32);
    expect_new_name(m, step.name);
    parameter_reader(file_, m, step.name).read(c);
    step.layer = std::move(c);
  }

  void expect_new_name(const member_reader& m, const std::string& name) const {
    for (const integer_step& other : program_.steps)
      if (other.name == name) m.refuse("another step has its name");
  }
  [[nodiscard]] const integer_step& at(int step) const {
    return program_.steps[static_cast<std::size_t>(step)];
  }

  program_tensors file_;
  integer_program program_{};
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
