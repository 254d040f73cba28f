// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/infer/weights_description.hpp>
#include <cordee/io/save_tensors.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

using metadata = cordee::detail::io::tensor_metadata;

weights_description read(const metadata& m) {
  const folder files;
  const std::string path = files.file("w.safetensors");
  const std::array<float, 1> one{1};
  const std::array<cordee::detail::io::tensor_view, 1> tensors{{{"w", {1}, std::span(one)}}};
  cordee::detail::io::save_tensors(path, tensors, m);
  return read_weights_description(path);
}
std::string refusal(const metadata& m) {
  return error_message([&] { (void)read(m); });
}

}  // namespace

TEST_CASE("weights_description: what fit was given and save wrote") {
  struct named_loader : toy_loader {
    [[nodiscard]] std::vector<std::string> class_names() const { return {"a cat"}; }
    [[nodiscard]] cordee::normalization normalization() const { return normalize{{0.5}, {0.25}}; }
  };
  const folder files;
  const std::string path = files.file("trained.safetensors");
  quadratic<fp64> model;
  trainer run{model, sgd{}, [](double) { return 0.05; }, solo{}};
  named_loader feed;
  run.fit(feed, 1);
  run.save(path);
  const weights_description d = read_weights_description(path);
  CHECK(d.class_names == std::vector<std::string>{"a cat"});
  REQUIRE(d.normalize.has_value());
  CHECK(cordee::normalization(*d.normalize) == feed.normalization());
}

TEST_CASE("weights_description: files of other programs, and damaged ones") {
  CHECK(read({}).class_names.empty());
  CHECK(!read({}).normalize.has_value());
  CHECK(read({{"classes", ""}}).class_names.empty());
  const auto both =
      read({{"deviation", "1 2 4 8"}, {"classes", "a\n\nb c"}, {"mean", "0 0.5 -1 1"}});
  CHECK(both.class_names == std::vector<std::string>{"a", "", "b c"});
  CHECK(both.normalize->mean == std::array<double, 4>{0, 0.5, -1, 1});
  CHECK(both.normalize->deviation == std::array<double, 4>{1, 2, 4, 8});
  for (const char* numbers : {"", "1 2 3 4 5", "1  2", "1,2", "x", "1 ", " 1"})
    CHECK(contains(refusal({{"mean", numbers}, {"deviation", "1"}}),
                   "its metadata \"mean\" are not one to four numbers"));
  CHECK(contains(refusal({{"mean", "1"}}), "1 numbers of \"mean\" and 0 of \"deviation\""));
  for (const char* deviation : {"0.5 0", "0.5 -1", "0.5 inf", "0.5 nan"})
    CHECK(
        contains(refusal({{"mean", "0 0"}, {"deviation", deviation}}), " of channel 1: both must"));
  CHECK(contains(refusal({{"mean", "nan"}, {"deviation", "1"}}), " of channel 0: both must"));
}
