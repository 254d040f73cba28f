// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every limit of a step in a file of an integer network, each exceeded by the least.
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <cordee/infer/file/program_reader.hpp>

#include "tests/infer/refused_program.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("program_reader: convolutions outside of the limits are refused") {
  using program = integer_program;
  const std::string at = "step 1, convolution \"layer1.0.conv1\": ";
  const auto refused = [&](const std::string& reason, const auto& change) {
    CHECK_REFUSED(at + reason, refusal([&](program& p) {
                    integer_convolution& c = convolution_at(p, 1);
                    change(p.steps[1], c);
                    const auto filters = static_cast<std::size_t>(c.problem.filters);
                    c.weights.resize(c.problem.weights(), 1);  // so that it can be written
                    c.bias.resize(filters);
                    c.factors.resize(filters);
                  }));
  };
  using step = integer_step;
  using layer = integer_convolution;
  refused("\"filters\" is 0, not within 1 .. 65536",
          [](step&, layer& c) { c.problem.filters = 0; });
  refused("\"window\" is 182", [](step&, layer& c) { c.problem.window = 182; });
  refused("\"window\" is 0", [](step&, layer& c) { c.problem.window = 0; });
  refused("\"stride\" is 0", [](step&, layer& c) { c.problem.stride = 0; });
  refused("\"padding\" is 3, not within 0 .. 2", [](step&, layer& c) { c.problem.padding = 3; });
  refused("\"padding\" is -1", [](step&, layer& c) { c.problem.padding = -1; });
  refused("its window is larger than its input", [](step&, layer& c) {
    c.problem.window = 9;
    c.problem.padding = 0;
  });
  refused("its sums of more than 33000 products may not fit 32 bits", [](step&, layer& c) {
    c.problem.window = 46;  // 46 x 46 x 16 = 33,856
    c.problem.padding = 45;
  });
  refused("\"bytes\" is 2", [](step& s, layer&) { s.bytes = 2; });
  refused("\"bytes\" is 3", [](step& s, layer&) { s.bytes = 3; });
  refused("\"bytes\" is 0", [](step& s, layer&) { s.bytes = 0; });
  refused("\"bytes\" is 5", [](step& s, layer&) { s.bytes = 5; });
  refused("\"zero_point\" is 256", [](step&, layer& c) { c.zero_point = 256; });
  refused("\"zero_point\" is -1", [](step&, layer& c) { c.zero_point = -1; });
  refused("\"offset\" is 256", [](step&, layer& c) { c.offset = 256; });
  refused("\"low\" is -1, not within 0 .. 255", [](step&, layer& c) { c.low = -1; });
  refused("\"high\" is 256, not within 0 .. 255", [](step&, layer& c) {
    c.low = 0;
    c.high = 256;
  });
  refused("\"high\" is 7, not within 8 .. 255", [](step&, layer& c) {
    c.low = 8;
    c.high = 7;
  });
  refused("\"low\" is -8388609, not within -8388608 .. 8388608", [](step& s, layer& c) {
    s.bytes = 4;
    c.low = -wide_limit - 1;
  });
  refused("\"input_multiplier\" is -1", [](step&, layer& c) { c.input_factor = {-1, 0}; });
  refused("\"input_shift\" is 32", [](step&, layer& c) { c.input_factor = {1 << 30, 32}; });
  refused("\"residual_shift\" is -32", [](step&, layer& c) { c.residual_factor = {1 << 30, -32}; });
  refused("the factor of input has multiplier 1073741823 and shift 0", [](step&, layer& c) {
    c.input_factor = {(1 << 30) - 1, 0};
  });
  refused("\"bias_shift\" is 31, not within -6 .. 30", [](step&, layer& c) { c.bias_shift = 31; });
  refused("\"bias_shift\" is -7", [](step&, layer& c) { c.bias_shift = -7; });
  refused("the bias of filter 0 does not fit its factor", [](step&, layer& c) {
    c.bias_shift = -6;
    std::fill(c.bias.begin(), c.bias.end(), 0);
    c.factors[0] = {1 << 30, -31};  // moves a bias of 0 by 68 places
  });
  refused("the bias of filter 3 does not fit its factor", [](step&, layer& c) {
    c.factors[3] = {1 << 30, 32 - c.bias_shift};
  });
  refused("the bias of filter 3 does not fit its factor", [](step&, layer& c) {
    c.bias_shift = 0;
    std::fill(c.bias.begin(), c.bias.end(), 0);
    c.bias[3] = -5;
    c.factors[3] = {1 << 30, -29};
  });
  refused("the factor of filter 3 has multiplier -5", [](step&, layer& c) {
    c.factors[3] = {-5, 0};
  });
  refused("the factor of filter 15 has multiplier 1073741824 and shift 32", [](step&, layer& c) {
    c.factors[15] = {1 << 30, 32};
  });
  refused("\"weight_bits\" is 3, not 2, 4 or 8", [](step&, layer& c) { c.weight_bits = 3; });
  refused("\"weight_bits\" is 1, not within 2 .. 8", [](step&, layer& c) { c.weight_bits = 1; });
  refused("\"weight_bits\" is 9", [](step&, layer& c) { c.weight_bits = 9; });
  refused("a weight is -128", [](step&, layer& c) { c.weights.back() = -128; });
  refused("a bias is 1073741825", [](step&, layer& c) { c.bias[2] = largest_bias + 1; });
  refused("a bias is -1073741825", [](step&, layer& c) { c.bias[2] = -largest_bias - 1; });
  CHECK_REFUSED("the shape of tensor \"layer1.0.conv1.weight\" is not [16, 16, 3, 3]",
                refusal("[16,16,3,3]", "[4,4,12,12]"));
}

TEST_CASE("program_reader: what a step cannot read or add is refused") {
  using program = integer_program;
  CHECK_REFUSED("step 2, convolution \"layer1.0.conv2\": what its \"residual\" names cannot",
                refusal([](program& p) { p.steps[2].residual = 1; }));
  CHECK_REFUSED("step 5, convolution \"layer2.0.conv2\": what its \"residual\" names cannot",
                refusal([](program& p) { p.steps[5].residual = 2; }));
  CHECK_REFUSED("step 4, subsample \"\": it cannot read integers of 1 bytes",
                refusal([](program& p) { p.steps[4].input = 1; }));
  CHECK_REFUSED("step 4, subsample \"\": \"channels\" is 15, not within 16 .. 65536",
                refusal([](program& p) {
                  std::get<detail::ops::subsample_problem>(p.steps[4].layer).out.channels = 15;
                }));
  CHECK_REFUSED("step 4, subsample \"\": \"stride\" is 0", refusal([](program& p) {
                  std::get<detail::ops::subsample_problem>(p.steps[4].layer).stride = 0;
                }));
  CHECK_REFUSED("step 9, mean \"\": it cannot read integers of 1 bytes",
                refusal([](program& p) { p.steps[9].input = 3; }));
  CHECK_REFUSED("step 10, classifier \"fc\": it cannot read integers of 1 bytes",
                refusal([](program& p) { p.steps[10].input = 3; }));
  CHECK_REFUSED("step 10, classifier \"fc\": its input is more than one pixel",
                refusal([](program& p) { p.steps[10].input = 8; }));
  const auto pool = [](const std::string& reason, const auto& change) {
    CHECK_REFUSED("step 1, max_pool \"\": " + reason,
                  refusal(program_of_imagenet_form(), [&](program& p) {
                    change(std::get<detail::ops::max_pool_problem>(p.steps[1].layer));
                  }));
  };
  using problem = detail::ops::max_pool_problem;
  pool("\"window\" is 17, not within 1 .. 16", [](problem& p) { p.window = 17; });
  pool("\"stride\" is 0", [](problem& p) { p.stride = 0; });
  pool("\"padding\" is 2, not within 0 .. 1", [](problem& p) { p.padding = 2; });
  CHECK_REFUSED("step 1, max_pool \"\": its window is larger than its input",
                refusal(program_of_imagenet_form(), [](program& p) {
                  p.image.height = 2;
                  std::get<problem>(p.steps[1].layer).window = 9;
                  std::get<problem>(p.steps[1].layer).padding = 0;
                }));
}

TEST_CASE("program_reader: classifiers whose sums or logits may overflow are refused") {
  const auto refused = [](const std::string& reason, const auto& change) {
    CHECK_REFUSED("step 10, classifier \"fc\": " + reason, refusal([&](integer_program& p) {
                    integer_classifier& c = classifier_of(p);
                    change(c);
                    c.weights.resize(c.classes * c.features);
                    c.bias.resize(c.classes);
                    c.factors.resize(c.classes);
                  }));
  };
  using layer = integer_classifier;
  refused("\"classes\" is 0", [](layer& c) { c.classes = 0; });
  refused("\"accumulator_shift\" is 33", [](layer& c) { c.shift = 33; });
  refused("\"accumulator_shift\" is -1", [](layer& c) { c.shift = -1; });
  refused("the sum of class 1 may not fit", [](layer& c) { c.bias[1] = std::int64_t{1} << 62; });
  refused("the sum of class 1 may not fit",
          [](layer& c) { c.bias[1] = std::numeric_limits<std::int64_t>::min(); });
  refused("the sum of class 0 may not fit", [](layer& c) {
    c.shift = 0;
    c.bias[0] = std::int64_t{1} << 40;
  });
  refused("the factor of class 2 is larger than 1", [](layer& c) { c.factors[2] = {1 << 30, 2}; });
  refused("the factor of class 2 is larger than 1", [](layer& c) {
    c.factors[2] = {(1 << 30) + 1, 1};
  });
  refused("a weight is -16384", [](layer& c) { c.weights[5] = -16384; });
  refused("a weight is 16384", [](layer& c) { c.weights[5] = 16384; });
}
