// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the parameters of a step from its tensors (infer/file/program_file.hpp), and checks that
// their sums fit as infer/program/integer_layers.hpp has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/infer/file/packed_bits.hpp>
#include <cordee/infer/file/program_file.hpp>
#include <cordee/infer/file/program_tensors.hpp>
#include <cordee/infer/file/stored_parameters.hpp>
#include <cordee/infer/program/integer_layers.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Reads parameters of a layer whose other members have been read. Throws error that names file,
/// step and tensor.
class parameter_reader {
 public:
  parameter_reader(program_tensors& file, member_reader& members, const std::string& name)
      : file_(file), members_(members), name_(name) {}

  void read(integer_convolution& c) {
    const auto filters = static_cast<std::size_t>(c.problem.filters);
    const int shift_bits = members_.take("shift_bits", 0, 6);
    if (c.weight_bits == 8)
      file_.read(name_ + ".weight", weight_shape(c.problem), c.weights);
    else
      read_packed(".weight", "weight", c.problem.weights(), c.weight_bits, c.weights);
    check_weights(c, largest_of_bits(c.weight_bits));
    if (shift_bits == 0) {
      read_filters(filters, c);
    } else {
      std::vector<std::int8_t> shifts;
      read_packed(".shift", "shift", filters, shift_bits, shifts);
      c.bias.assign(filters, 0);
      for (const int shift : shifts) c.factors.push_back({1 << 30, shift});
    }
    check_factors(c);
    for (std::size_t k = 0; k < filters; ++k) {
      const std::int32_t b = c.bias[k];
      if (b < -largest_bias || b > largest_bias)
        members_.refuse(concat("a bias is ", b, ", larger than 2^30"));
      const int places = 31 - c.factors[k].shift - c.bias_shift;
      if (places < 0 || places > 62 || std::int64_t{std::abs(b)} > largest_addend >> places)
        members_.refuse(concat("the bias of filter ", k, " does not fit its factor"));
    }
  }

  void read(integer_batch_norm& n) {
    const auto channels = static_cast<std::size_t>(n.in.channels);
    std::vector<std::uint8_t> zeros;
    read_packed(".multiplier", "multiplier", channels, members_.take("multiplier_bits", 1, 64),
                n.multiplier);
    read_packed(".addend", "addend", channels, members_.take("addend_bits", 1, 64), n.addend);
    read_packed(".addend_zeros", "number of zeros", channels, members_.take("zeros_bits", 0, 6),
                zeros);
    constexpr std::int64_t half = largest_norm_sum / 2;
    for (std::size_t k = 0; k < channels; ++k) {
      const std::int64_t most = half >> zeros[k];
      if (n.multiplier[k] < -(half / norm_limit) || n.multiplier[k] > half / norm_limit ||
          n.addend[k] < -most || n.addend[k] > most)
        members_.refuse(concat("the sum of channel ", k, " may not fit 64 bits"));
      n.addend[k] *= std::int64_t{1} << zeros[k];
    }
  }

  void read(integer_classifier& c) {
    file_.read(name_ + ".weight", {c.classes, c.features}, c.weights);
    check_weights(c, largest_weight);
    read_filters(c.classes, c);
    check_factors(c);
    for (std::size_t k = 0; k < c.classes; ++k) {
      std::int64_t bound = 0;
      for (std::size_t f = 0; f < c.features; ++f)
        bound += std::int64_t{std::abs(c.weights[k * c.features + f])} * wide_limit;
      constexpr std::int64_t most = std::int64_t{1} << 61;
      const std::int64_t b = c.bias[k];
      if (b < -most || b > most || (bound + std::abs(b)) >> c.shift > std::int64_t{1} << 30)
        members_.refuse(concat("the sum of class ", k, " may not fit 32 bits"));
      const ops::fixed_point f = c.factors[k];
      if (f.shift > 0 && f != ops::fixed_point{1 << 30, 1})
        members_.refuse(concat("the factor of class ", k, " is larger than 1"));
    }
  }

 private:
  /// Biases and factors.
  template <class Layer>
  void read_filters(std::size_t filters, Layer& layer) {
    file_.read(name_ + ".bias", {filters}, layer.bias);
    std::vector<std::int32_t> multipliers;
    std::vector<std::int8_t> shifts;
    file_.read(name_ + ".multiplier", {filters}, multipliers);
    file_.read(name_ + ".shift", {filters}, shifts);
    for (std::size_t k = 0; k < filters; ++k) layer.factors.push_back({multipliers[k], shifts[k]});
  }
  template <class T>
  void read_packed(const char* tensor, const char* number, std::size_t n, int bits,
                   std::vector<T>& out) {
    std::vector<std::uint8_t> bytes;
    file_.read(name_ + tensor, {packed_bits_size(n, bits)}, bytes);
    auto numbers = unpack_bits<T>(bytes, n, bits);
    if (!numbers) members_.refuse(concat("bits behind its last ", number, " are set"));
    out = std::move(*numbers);
  }
  template <class Layer>
  void check_weights(const Layer& layer, int most) const {
    for (const auto w : layer.weights)
      if (w < -most || w > most)
        members_.refuse(concat("a weight is ", w + 0, ", not within ", -most, " .. ", most));
  }
  template <class Layer>
  void check_factors(const Layer& layer) const {
    for (std::size_t k = 0; k < layer.factors.size(); ++k) {
      const ops::fixed_point f = layer.factors[k];
      if (f.multiplier < 0 || f.shift < -31 || f.shift > 31)
        members_.refuse(concat("the factor of filter ", k, " has multiplier ", f.multiplier,
                               " and shift ", f.shift, ", not 0 .. 2^31 - 1 and -31 .. 31"));
    }
  }

  program_tensors& file_;
  member_reader& members_;
  const std::string& name_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
