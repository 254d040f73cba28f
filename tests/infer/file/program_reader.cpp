// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every limit of a file of an integer network, each exceeded by the least.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <cordee/infer/file/program_reader.hpp>

#include "tests/infer/refused_program.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("program_reader: what is not a file of integer_network::save is refused") {
  const auto unchanged = [](integer_program&) {};
  CHECK(refusal(unchanged) == "");
  CHECK(refusal(program_of_imagenet_form(), unchanged) == "");
  CHECK(refusal(program_of_unfolded_form(), unchanged) == "");
  CHECK_REFUSED("its metadata have no \"format\"", refusal("\"format\"", "\"formal\""));
  CHECK_REFUSED("\"format\" is \"cordee.integer_netwerk\", this program reads \"cordee.",
                refusal("integer_network", "integer_netwerk"));
  for (const std::string version : {"1", "3"})
    CHECK(refusal("\"version\":\"2\"", "\"version\":\"" + version + "\"") ==
          "it has version " + version +
              " of the format, this program reads version 2: save the network again, from its "
              "trained weights, with the Cordee that loads it");
  CHECK_REFUSED("\"rounding\" is \"double\", this program reads \"single\"",
                refusal("\"single\"", "\"double\""));
  CHECK_REFUSED("its metadata have no \"program\"", refusal("\"program\"", "\"pragram\""));
  CHECK_REFUSED("\"program\": unexpected \"ymage\"", refusal("\\\"image", "\\\"ymage"));
  CHECK_REFUSED("step 0, convolutiom \"conv1\": no such layer",
                refusal("convolution", "convolutiom"));
  CHECK_REFUSED("step 0, convolution \"conv1\": \"filters\" is missing",
                refusal("\\\"filters", "\\\"filterz"));
  CHECK_REFUSED("step 3, convolution \"layer2.0.conv1\": \"stride\" is missing",
                refusal("\\\"stride\\\":2", "\\\"window\\\":2"));
  CHECK_REFUSED(
      "step 9, mean \"\": unexpected \"window\"",
      refusal("\\\"name\\\":\\\"\\\",\\\"input\\\":8", "\\\"window\\\": 1,\\\"input\\\":8"));
  CHECK_REFUSED("no tensor \"conv1.bias\"", refusal("\"conv1.bias\"", "\"conv1.bios\""));
  CHECK_REFUSED("tensor \"fc.bias\" is of type U64, but I64 is needed",
                refusal("\"I64\"", "\"U64\""));
}

TEST_CASE("program_reader: images and programs outside of the limits are refused") {
  using program = integer_program;
  CHECK_REFUSED("its images are 5x9x8", refusal([](program& p) {
                  p.image.channels = 5;
                  p.table.resize(5 * 256);
                }));
  CHECK_REFUSED("its images are 1x0x8", refusal([](program& p) { p.image.height = 0; }));
  CHECK_REFUSED("its images are 1x9x0", refusal([](program& p) { p.image.width = -1; }));
  CHECK_REFUSED("its images are 1x9x0", refusal([](program& p) { p.image.width = 1 << 14 | 1; }));
  CHECK_REFUSED("its images are 1x16384x16384",
                refusal([](program& p) { p.image.height = p.image.width = 1 << 14; }));
  for (const double step : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()})
    CHECK_REFUSED("tensor \"logit_step\" is not a positive number",
                  refusal(
                      program_of_cifar_form(), [](program&) {}, step));
  CHECK_REFUSED("its program has 0 steps", refusal([](program& p) { p.steps.clear(); }));
  CHECK_REFUSED("its program has 4097 steps",
                refusal([](program& p) { p.steps.resize(4097, {.layer = mean_problem{}}); }));
  CHECK_REFUSED("its program does not end in a classifier",
                refusal([](program& p) { p.steps.pop_back(); }));
  CHECK_REFUSED("a step follows the classifier", refusal([](program& p) {
                  p.steps.push_back({.layer = mean_problem{}, .name = {}, .input = 3});
                }));
  CHECK_REFUSED("step 1, convolution \"layer1.0.conv1\": \"input\" is -1, not within 0 .. 0",
                refusal([](program& p) { p.steps[1].input = -1; }));
  CHECK_REFUSED("step 1, convolution \"layer1.0.conv1\": \"input\" is 1, not within 0 .. 0",
                refusal([](program& p) { p.steps[1].input = 1; }));
  CHECK_REFUSED("step 2, convolution \"layer1.0.conv2\": \"residual\" is 2, not within -1 .. 1",
                refusal([](program& p) { p.steps[2].residual = 2; }));
  CHECK_REFUSED("step 2, convolution \"layer1.0.conv1\": another step has its name",
                refusal("layer1.0.conv2\\\",\\\"input", "layer1.0.conv1\\\",\\\"input"));
}

TEST_CASE("program_reader: a tensor that no step reads is refused") {
  const folder f;
  save_program(f.file("net"), program_of_cifar_form(), 0.5);
  auto bytes = f.get("net");
  const std::string more = R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},    )";
  lengthen(bytes, 9, more);
  f.put("net", bytes);
  CHECK(contains_all(message_of<error>([&] {
                       static_cast<void>(program_reader(f.file("net"), checksums::ignored).read());
                     }),
                     {"it has 35 tensors, of which its program reads 34"}));
}

TEST_CASE("program_reader: a program that needs too much memory is refused before it has any") {
  CHECK_REFUSED("step 0, convolution \"conv1\": its output 16x2048x2048 is too large",
                refusal([](integer_program& p) {
                  p.image = {1, 2048, 2048};
                }));
  // 16 x 1024 x 1024 numbers of 32 bits are 64 MB; ten of them are needed at once.
  CHECK_REFUSED(
      "a worker needs ", refusal([](integer_program& p) {
        p.image = {1, 1024, 1024};
        integer_step again = p.steps[0];
        p.steps.resize(1);
        for (int k = 1; k < 10; ++k) {
          again.name = "conv1." + std::to_string(k);
          again.input = 0;
          integer_convolution& c = std::get<integer_convolution>(again.layer);
          c.problem.in.channels = 16;
          c.weights.assign(16 * 16 * 9, 1);
          p.steps.push_back(again);
        }
        for (int k = 1; k < 10; ++k) {
          again.name = "sum." + std::to_string(k);
          again.residual = k;
          p.steps.push_back(again);
        }
        integer_step last = again;
        last.bytes = 4;
        last.residual = -1;
        last.name = "wide";
        p.steps.push_back(last);
        p.steps.push_back({.layer = mean_problem{},
                           .name = {},
                           .input = static_cast<int>(p.steps.size()) - 1,
                           .bytes = 4});
        integer_classifier c{
            .features = 16, .classes = 1, .weights = {}, .bias = {0}, .shift = 5, .factors = {{}}};
        c.weights.assign(16, 1);
        p.steps.push_back(
            {.layer = c, .name = "fc", .input = static_cast<int>(p.steps.size()) - 1, .bytes = 4});
      }));
}

TEST_CASE("program_reader: a flipped bit of the description is an error, or a program that runs") {
  const folder f;
  save_program(f.file("net"), program_of_cifar_form(), 0.5);
  const auto good = f.get("net");
  std::size_t begin = 0;
  const std::string_view key = "\"program\"";
  begin = static_cast<std::size_t>(std::search(good.begin(), good.end(), key.begin(), key.end()) -
                                   good.begin());
  int refused = 0, read = 0;
  for (std::size_t i = begin; i < begin + 2200; ++i) {
    auto bytes = good;
    bytes[i] = static_cast<std::uint8_t>(bytes[i] ^ 1 << i % 8);
    f.put("net", bytes);
    const auto message = message_of<error>(
        [&] { static_cast<void>(program_reader(f.file("net"), checksums::ignored).read()); });
    ++(message.empty() ? read : refused);
    CHECK((message.empty() || message.starts_with(f.file("net"))));
  }
  CHECK(refused > 1000);
  CHECK(read > 0);  // such as another zero point
}

#if defined(CORDEE_SOURCE_DIR)
TEST_CASE("program_reader: the fuzzer begins with files that are read, of every kind of layer") {
  for (const std::string name : {"plain", "pooled", "residual", "projection", "batch_norm",
                                 "addend_zeros", "four_bits", "two_bits"}) {
    CAPTURE(name);
    const std::string file = CORDEE_SOURCE_DIR "/tests/fuzz/corpus/integer_network/" + name;
    CHECK(message_of<error>([&] { static_cast<void>(program_reader(file).read()); }) == "");
  }
}
#endif
