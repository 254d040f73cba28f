// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a file says of batch norms that are not folded, and of the convolutions before them, beyond
// its limits by the least.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/file/parameter_reader.hpp>
#include <cordee/io/tensor_file.hpp>

#include "tests/infer/refused_program.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A member of a step in the description, whose quotes are escaped.
std::string member(const char* name, const char* value) {
  return concat("\\\"", name, "\\\":", value);
}
/// Sets bits of the last byte of a tensor.
auto with_last_byte(const char* tensor, int set) {
  return [=](file_bytes& bytes) {
    const folder f;
    f.put("net", bytes);
    const auto entry = detail::io::tensor_file::open(f.file("net")).at(tensor);
    REQUIRE(entry.dtype == "U8");
    REQUIRE(entry.size > 0);
    auto& last = bytes[entry.offset + entry.size - 1];
    last = static_cast<std::uint8_t>(last | set);
  };
}

/// Three channels, so that bits remain behind the last number of each tensor.
using odd = network<sequential<convolution<3, 1>, batch_norm<relu>, global_average_pool, linear<2>>,
                    int8, cpu, direct, extent{1, 4, 4}, 2>;
integer_program odd_program() {
  integer_program p = random_integers<odd>(1, {.fold_batch_norm = false}).program();
  auto& n = std::get<integer_batch_norm>(p.steps[1].layer);
  n.multiplier = {500, -512, 7};            // 10 bits
  n.addend = {1001 << 20, -1024 << 20, 5};  // 11 bits, and 5 of up to 20 zeros
  n.shift = 10;
  integer_convolution& c = convolution_at(p, 0);
  c.factors = {{1 << 30, 1}, {1 << 30, 0}, {1 << 30, -4}};  // 3 bits
  c.bias_shift = 0;
  return p;
}

}  // namespace

TEST_CASE("parameter_reader: batch norms outside of the limits are refused") {
  const integer_program& program = program_of_unfolded_form();
  using layer = integer_batch_norm;
  const auto refused = [&](const std::string& reason, const auto& change) {
    CHECK_REFUSED("step 1, batch_norm \"bn1\": " + reason,
                  refusal(program, [&](integer_program& p) {
                    change(p, std::get<layer>(p.steps[1].layer));
                  }));
  };
  using whole = integer_program;
  const std::int64_t most = largest_norm_sum / 2;
  refused("\"shift\" is 62, not within 0 .. 61", [](whole&, layer& n) { n.shift = 62; });
  refused("\"shift\" is -1", [](whole&, layer& n) { n.shift = -1; });
  refused("the sum of channel 3 may not fit 64 bits",
          [=](whole&, layer& n) { n.addend[3] = most + 1; });
  refused("the sum of channel 0 may not fit 64 bits",
          [=](whole&, layer& n) { n.addend[0] = -most - 1; });
  refused("the sum of channel 15 may not fit 64 bits",
          [=](whole&, layer& n) { n.multiplier[15] = most / norm_limit + 1; });
  refused("the sum of channel 15 may not fit 64 bits",
          [=](whole&, layer& n) { n.multiplier[15] = -most / norm_limit - 1; });
  refused("\"low\" is -8388609", [](whole&, layer& n) { n.low = -wide_limit - 1; });
  refused("\"high\" is 8388609", [](whole&, layer& n) { n.high = wide_limit + 1; });
  refused("\"offset\" is 256", [](whole&, layer& n) { n.offset = 256; });
  const std::string input = "its input is not that of a convolution";
  refused(input, [](whole& p, layer&) { convolution_at(p, 0).low = -norm_limit - 1; });
  refused(input, [](whole& p, layer&) { convolution_at(p, 0).high = norm_limit + 1; });
  refused(input, [](whole& p, layer&) {
    p.steps[0].bytes = 1;
    convolution_at(p, 0).low = 0;
    convolution_at(p, 0).high = 255;
  });
  CHECK_REFUSED("step 3, batch_norm \"layer1.0.bn1\": " + input,
                refusal(program, [](whole& p) { p.steps[3].input = 1; }));
  CHECK(refusal(program, [&](whole& p) {
          auto& n = std::get<layer>(p.steps[1].layer);
          n.addend[0] = most;
          n.addend[1] = 1 - most;  // no zeros
          n.multiplier[1] = -most / norm_limit;
        }) == "");
}

TEST_CASE("parameter_reader: the integers of a batch norm and of the convolution before it") {
  const folder f;
  const integer_program written = odd_program();
  save_program(f.file("net"), written, 0.5);
  const integer_program read = program_reader(f.file("net")).read().program;
  const auto& n = std::get<integer_batch_norm>(read.steps[1].layer);
  CHECK(n.multiplier == std::vector<std::int64_t>{500, -512, 7});
  CHECK(n.addend == std::vector<std::int64_t>{1001 << 20, -1024 << 20, 5});
  const auto& c = std::get<integer_convolution>(read.steps[0].layer);
  CHECK(c.factors == std::get<integer_convolution>(written.steps[0].layer).factors);
  CHECK(c.bias == std::vector<std::int32_t>{0, 0, 0});
}

TEST_CASE("parameter_reader: convolutions whose shifts alone are stored, outside of the limits") {
  const integer_program program = odd_program();
  const auto refused = [&](const std::string& reason, int shift, int bias_shift) {
    CHECK_REFUSED("step 0, convolution \"conv1\": " + reason,
                  refusal(program, [&](integer_program& p) {
                    convolution_at(p, 0).factors[2].shift = shift;
                    convolution_at(p, 0).bias_shift = bias_shift;
                  }));
  };
  refused("the factor of filter 2 has multiplier 1073741824 and shift -32", -32, 0);
  refused("\"shift_bits\" is 7, not within 0 .. 6", 32, 0);
  refused("the bias of filter 2 does not fit its factor", 31, 1);
  CHECK(refusal(program, [](integer_program& p) {
          convolution_at(p, 0).factors[2].shift = 31;
          convolution_at(p, 0).factors[1].shift = -31;
        }) == "");
}

TEST_CASE("parameter_reader: addends times too many zeros are refused") {
  const integer_program& program = program_of_unfolded_form();
  for (const std::int64_t addend :
       {std::int64_t{1} << 62, -(std::int64_t{1} << 62), std::numeric_limits<std::int64_t>::min()})
    CHECK_REFUSED("step 1, batch_norm \"bn1\": the sum of channel 3 may not fit 64 bits",
                  refusal(program, [=](integer_program& p) {
                    std::get<integer_batch_norm>(p.steps[1].layer).addend[3] = addend;
                  }));
}

TEST_CASE("parameter_reader: widths beyond the limits, and tensors of other lengths or types") {
  const integer_program program = odd_program();
  const norm_widths bits(std::get<integer_batch_norm>(program.steps[1].layer));
  REQUIRE(bits.multiplier == 10);
  REQUIRE(bits.addend == 11);
  REQUIRE(bits.zeros == 5);
  CHECK(refusal_of_bytes(program, [](file_bytes&) {}) == "");
  const auto refused = [&](const std::string& reason, const char* name, const char* from,
                           const char* to) {
    CHECK_REFUSED(reason,
                  refusal_of_bytes(program, replaced(member(name, from), member(name, to))));
  };
  const std::string norm = "step 1, batch_norm \"bn1\": ",
                    convolution = "step 0, convolution \"conv1\": ", shape = "the shape of tensor ";
  refused(norm + "\"multiplier_bits\" is 65, not within 1 .. 64", "multiplier_bits", "10", "65");
  refused(norm + "\"multiplier_bits\" is 0, not within 1 .. 64", "multiplier_bits", "10", " 0");
  refused(norm + "\"multiplier_bits\" is -1", "multiplier_bits", "10", "-1");
  refused(shape + "\"bn1.multiplier\" is not [5]", "multiplier_bits", "10", "11");
  refused(shape + "\"bn1.multiplier\" is not [3]", "multiplier_bits", "10", " 8");
  refused(norm + "\"addend_bits\" is 65, not within 1 .. 64", "addend_bits", "11", "65");
  refused(norm + "\"addend_bits\" is 0", "addend_bits", "11", " 0");
  refused(shape + "\"bn1.addend\" is not [6]", "addend_bits", "11", "14");
  refused(norm + "\"zeros_bits\" is 7, not within 0 .. 6", "zeros_bits", "5", "7");
  refused(shape + "\"bn1.addend_zeros\" is not [3]", "zeros_bits", "5", "6");
  refused(shape + "\"bn1.addend_zeros\" is not [0]", "zeros_bits", "5", "0");
  refused(convolution + "\"shift_bits\" is 7, not within 0 .. 6", "shift_bits", "3", "7");
  refused(shape + "\"conv1.shift\" is not [3]", "shift_bits", "3", "6");
  refused("no tensor \"conv1.bias\"", "shift_bits", "3", "0");
  for (const char* name : {"multiplier_bits", "addend_bits", "zeros_bits", "shift_bits"}) {
    std::string other = name;
    other.back() = 'z';
    CHECK_REFUSED((name[0] == 's' ? convolution : norm) + "\"" + name + "\" is missing",
                  refusal_of_bytes(program, replaced(member(name, ""), member(other.c_str(), ""))));
  }
  // A convolution with factors, whose shifts have a byte each.
  CHECK_REFUSED(shape + "\"conv1.shift\" is not [6]",
                refusal(member("shift_bits", "0"), member("shift_bits", "3")));
  CHECK_REFUSED("tensor \"bn1.addend\" is of type I8, but U8 is needed",
                refusal_of_bytes(program, replaced("\"bn1.addend\":{\"dtype\":\"U8\"",
                                                   "\"bn1.addend\":{\"dtype\":\"I8\"")));
}

TEST_CASE("parameter_reader: each bit behind the last number of a tensor is refused") {
  const integer_program program = odd_program();
  const auto refused = [&](const std::string& reason, const char* tensor, int used) {
    for (int bit = used; bit < 8; ++bit)
      CHECK_REFUSED(reason + " are set",
                    refusal_of_bytes(program, with_last_byte(tensor, 1 << bit)));
  };
  const std::string behind = "bits behind its last ",
                    norm = "step 1, batch_norm \"bn1\": " + behind;
  refused(norm + "multiplier", "bn1.multiplier", 30 - 24);
  refused(norm + "addend", "bn1.addend", 33 - 32);
  refused(norm + "number of zeros", "bn1.addend_zeros", 15 - 8);
  refused("step 0, convolution \"conv1\": " + behind + "shift", "conv1.shift", 9 - 8);
}
