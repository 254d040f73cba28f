// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a program's layers as tensors of its file (infer/file/program_file.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/infer/file/packed_bits.hpp>
#include <cordee/infer/file/parameter_widths.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/io/save_tensors.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// (K, C, R, S)
inline std::vector<std::size_t> weight_shape(const convolution_problem& p) {
  const auto window = static_cast<std::size_t>(p.window);
  return {static_cast<std::size_t>(p.filters), static_cast<std::size_t>(p.in.channels), window,
          window};
}

/// Refers to numbers of the program.
class stored_parameters {
 public:
  template <class Program>
  explicit stored_parameters(const Program& program) {
    for (const integer_step& step : program.steps) {
      if (const auto* c = std::get_if<integer_convolution>(&step.layer))
        add(step.name, *c);
      else if (const auto* l = std::get_if<integer_classifier>(&step.layer))
        add(step.name, *l);
      else if (const auto* n = std::get_if<integer_batch_norm>(&step.layer))
        add(step.name, *n);
    }
  }
  stored_parameters(const stored_parameters&) = delete;
  stored_parameters& operator=(const stored_parameters&) = delete;

  [[nodiscard]] const std::vector<io::tensor_view>& tensors() const { return tensors_; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const io::tensor_view& t : tensors_) sum += t.bytes.size();
    return sum;
  }

 private:
  void add(const std::string& name, const integer_convolution& c) {
    if (c.weight_bits < 8)
      add_packed(name + ".weight", c.weights, c.weight_bits);
    else
      tensors_.emplace_back(name + ".weight", weight_shape(c.problem), std::span(c.weights));
    if (const int bits = shift_width(c); bits > 0)
      add_packed(name + ".shift", shifts_of(c), bits);
    else
      add_filters(name, c);
  }
  void add(const std::string& name, const integer_classifier& c) {
    tensors_.emplace_back(name + ".weight", std::vector{c.classes, c.features},
                          std::span(c.weights));
    add_filters(name, c);
  }
  void add(const std::string& name, const integer_batch_norm& n) {
    const norm_widths bits(n);
    std::vector<std::int64_t> addends;
    std::vector<std::uint8_t> zeros;
    for (const std::int64_t b : n.addend) {
      zeros.push_back(bits.zeros_of(b));
      addends.push_back(b >> zeros.back());
    }
    add_packed(name + ".multiplier", n.multiplier, bits.multiplier);
    add_packed(name + ".addend", addends, bits.addend);
    add_packed(name + ".addend_zeros", zeros, bits.zeros);
  }

  template <class Layer>
  void add_filters(const std::string& name, const Layer& layer) {
    const std::vector<std::size_t> filters{layer.bias.size()};
    std::vector<std::int32_t>& multipliers = multipliers_.emplace_back();
    for (const ops::fixed_point& f : layer.factors) multipliers.push_back(f.multiplier);
    shifts_.push_back(shifts_of(layer));
    tensors_.emplace_back(name + ".bias", filters, std::span(layer.bias));
    tensors_.emplace_back(name + ".multiplier", filters, std::span(std::as_const(multipliers)));
    tensors_.emplace_back(name + ".shift", filters, std::span(std::as_const(shifts_.back())));
  }
  template <class Layer>
  static std::vector<std::int8_t> shifts_of(const Layer& layer) {
    std::vector<std::int8_t> shifts;
    for (const ops::fixed_point& f : layer.factors)
      shifts.push_back(static_cast<std::int8_t>(f.shift));
    return shifts;
  }
  template <class T>
  void add_packed(std::string name, const std::vector<T>& numbers, int bits) {
    const auto& bytes = packed_.emplace_back(pack_bits(std::span(numbers), bits));
    tensors_.emplace_back(name, std::vector{bytes.size()}, std::span(bytes));
  }

  // What the tensors refer to: a vector's numbers stay where they are when it is moved.
  std::vector<std::vector<std::uint8_t>> packed_;
  std::vector<std::vector<std::int32_t>> multipliers_;
  std::vector<std::vector<std::int8_t>> shifts_;
  std::vector<io::tensor_view> tensors_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
