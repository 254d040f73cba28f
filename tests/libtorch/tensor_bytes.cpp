// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/libtorch/tensor_bytes.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
namespace own = cordee::detail::libtorch;

TEST_CASE("tensor_bytes: every number type that files have is read as it was written") {
  const folder files;
  const std::string path = files.file("all.safetensors");
  std::vector<torch::Tensor> tensors;
  for (const auto type :
       {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt,
        torch::kShort, torch::kChar, torch::kByte, torch::kBool})
    tensors.push_back(torch::arange(6).remainder(2).to(type).reshape({2, 3}));
  tensors.push_back(torch::full({}, 3, torch::kLong));
  std::vector<cordee::detail::io::tensor_view> views;
  for (std::size_t k = 0; k < tensors.size(); ++k)
    views.push_back(own::view_of("t" + std::to_string(k), tensors[k]));
  cordee::detail::io::save_tensors(path, views);
  const auto file = cordee::detail::io::tensor_file::open(path);
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    CAPTURE(k);
    torch::Tensor read = torch::zeros_like(tensors[k]);
    own::read(file, "t" + std::to_string(k), read);
    CHECK(read.equal(tensors[k]));
  }
  torch::Tensor other = torch::zeros({6}, torch::kLong);
  CHECK(error_message([&] { own::read(file, "t4", other); }).find("\"t4\" is of I64") !=
        std::string::npos);
  torch::Tensor absent = torch::full({2}, 5);
  own::read(file, "absent", absent);
  CHECK(absent.equal(torch::full({2}, 5)));
}

TEST_CASE("tensor_bytes: a number type that files do not have is refused by name") {
  CHECK(error_message([] {
          own::view_of("z", torch::zeros({2}, torch::kComplexFloat));
        }).find("\"z\" is a tensor of ComplexFloat") != std::string::npos);
}
