// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "examples/plan/parameter_file.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

parameter_list read(const std::string& text) {
  std::istringstream in(text);
  return plan::parameter_file::read_text(in);
}

}  // namespace

TEST_CASE("parameter_file: a text with names, shapes and kinds") {
  const parameter_list list = read(
      "# a comment\r\n"
      "fc1.weight\t64x784  # behind a line\r\n"
      "bn.running_mean 64 statistic\n\n"
      "  fc1.bias 64 bias");
  REQUIRE(list.segments().size() == 3);
  CHECK(list.segments()[0].name == "fc1.weight");
  CHECK(list.segments()[0].shape == tensor_shape{64, 784});
  CHECK(list.segments()[1].kind == kind::bias);
  CHECK(list.segments()[2].kind == kind::statistic);
}

TEST_CASE("parameter_file: what is wrong is refused in a sentence that names the line") {
  const std::pair<std::string, const char*> texts[]{
      {"w", "line 1: name, shape and kind are expected"},
      {"w 4 weight 7", "line 1: name, shape and kind are expected"},
      {"w 4\nv 4y", "line 2: \"4y\" is no shape: 64x784, or 10 for a row"},
      {"w x4", "\"x4\" is no shape"},
      {"w 4x", "\"4x\" is no shape"},
      {"w 99999999999999999999", "is no shape"},
      {"w 4 heavy", "line 1: \"heavy\" is none of weight, bias, scale, shift, statistic"},
      {"w 4\nw 4", "line 2: parameter_list: two tensors are named \"w\""},
      {"w 0", "side 0 of \"w\" is 0"},
      {"w -4", "side 0 of \"w\" is -4"},
      {"w 1x1x1x1x1x1x1", "\"w\" has 7 sides"},
      {"w 2000000000x2000000000", "line 1: more than 1e15 numbers in all"},
      {std::string(600, 'w'), "line 1: longer than 511 characters"},
      {std::string("\0\1\2 4\n\x7f\x45LF", 12), "line 2: name, shape and kind are expected"},
      {"", "the list has no tensor to train"},
      {"m 4 statistic", "the list has no tensor to train"}};
  for (const auto& [text, part] : texts) {
    CAPTURE(text);
    const std::string message = error_message([&, &text = text] { (void)read(text); });
    CAPTURE(message);
    CHECK(contains(message, part));
  }
  std::string many;
  for (int k = 0; k < 20'001; ++k) many += concat("w", k, " 1\n");
  CHECK(contains(error_message([&] { (void)read(many); }), "line 20001: more than 20000 tensors"));
}

TEST_CASE("parameter_file: a file of weights") {
  const folder files;
  const std::string path = files.file("net.safetensors");
  const auto write = [&](const std::string& header, std::size_t bytes) {
    std::string text(8, '\0');
    for (std::size_t k = 0, n = header.size(); k < 8; ++k, n >>= 8)
      text[k] = static_cast<char>(n & 255);
    std::ofstream(path, std::ios::binary) << text << header << std::string(bytes, '\0');
  };
  write(R"({"fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},)"
        R"("bn.weight":{"dtype":"BF16","shape":[2],"data_offsets":[32,36]},)"
        R"("bn.running_var":{"dtype":"F32","shape":[1],"data_offsets":[36,40]},)"
        R"("bn.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[40,48]}})",
        48);
  const parameter_list list = plan::parameter_file::read(path);
  CHECK(list.describe() == "4 tensors: weight 6 in 1, bias 2 in 1, scale 2 in 1, statistic 1 in 1");
  write(R"({"fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,2400]}})", 24);
  CHECK(contains(error_message([&] { (void)plan::parameter_file::read(path); }), "fc.weight"));
}
