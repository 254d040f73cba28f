// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/input/data_description.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::train;
using namespace support;

namespace {

constexpr constant steady{0.05};
constexpr normalization gray{.mean = {0.5}, .scale = {4}};

/// Of the toy model's one class.
struct named_loader : toy_loader {
  std::vector<std::string> names{"cat"};
  cordee::normalization norm = gray;
  [[nodiscard]] std::vector<std::string> class_names() const { return names; }
  [[nodiscard]] cordee::normalization normalization() const { return norm; }
};
struct named_data : toy_data {
  std::vector<std::string> names{"cat"};
  extent size_of_images{1, 1, 1};
  int number_of_classes = 1;
  [[nodiscard]] std::vector<std::string> class_names() const { return names; }
  [[nodiscard]] extent image() const { return size_of_images; }
  [[nodiscard]] int classes() const { return number_of_classes; }
};
named_data with_names(std::vector<std::string> names) { return {{}, std::move(names)}; }

auto make_trainer(quadratic<fp64>& model) { return trainer{model, sgd{}, steady, solo{}}; }

}  // namespace

TEST_CASE("data_description: classes in another order, or others, are refused with both lists") {
  const data_description known{{"ant", "bee", "cat", "dog", "elk"}, false, {}, "the file x"};
  const auto refusal = [&](const name_list& names) {
    return error_message([&] { expect_same_classes(known, names, "fit", "stop"); });
  };
  CHECK(refusal(known.class_names).empty());
  CHECK(refusal({}).empty());  // not known
  CHECK(refusal({"ant", "cat", "bee", "dog", "elk"}) ==
        "fit has the classes ant, cat, bee, dog, ... (5); the file x: ant, bee, cat, dog, ... (5). "
        "Class 1 is \"cat\", not \"bee\": stop");
  CHECK(contains(refusal({"ant", "bee"}), "Class 2 is missing, not \"cat\""));
}

TEST_CASE("data_description: a normalization is the same up to what rounding explains") {
  const normalization cifar{{0.4914f, 0.4822f, 0.4465f}, {1 / 0.247f, 1 / 0.2435f, 1 / 0.2616f}};
  normalization other = cifar;
  other.mean[3] = 1;  // of a channel that the images have not
  other.mean[1] = 0.48f;
  CHECK(same_normalization(cifar, other, 3));
  other.scale[2] = 1 / 0.2010f;  // the means of each image's own deviations
  CHECK_FALSE(same_normalization(cifar, other, 3));
  CHECK_FALSE(same_normalization(cifar, {}, 3));
}

TEST_CASE("data_description: metadata that are not of the network are left out") {
  using metadata = std::vector<std::pair<std::string, std::string>>;
  const auto read = [](const metadata& m) { return read_description(m, 2, 2, true, "x"); };
  const data_description whole =
      read({{"mean", "0.5 1e-1"}, {"deviation", "0.25 0.5"}, {"classes", "a cat\ndog"}});
  CHECK(whole.class_names == name_list{"a cat", "dog"});
  CHECK((whole.has_normalization && whole.normalization.mean[1] == 0.1f &&
         whole.normalization.scale[0] == 4));
  const metadata again = with_description(metadata{{"mean", "of a user"}}, whole, 2);
  CHECK(again ==
        metadata{{"mean", "of a user"}, {"deviation", "0.25 0.5"}, {"classes", "a cat\ndog"}});
  for (const char* mean : {"0.5", "0.5 0.1 0.1", "0.5 gray", "0.5, 0.1", ""})
    CHECK_FALSE(read({{"mean", mean}, {"deviation", "1 1"}}).has_normalization);
  CHECK(read({{"classes", "cat, dog"}}).class_names.empty());
  CHECK(read({{"classes", ""}}).class_names.empty());
}

TEST_CASE("fit: what a validation is known to be is checked before the first step") {
  quadratic<fp64> model;
  auto run = make_trainer(model);
  named_loader feed;
  const auto refusal = [&](const named_data& data, int batch = 5) {
    const std::string text = error_message([&] { run.fit(feed, 1, validation{data, batch}); });
    CHECK(run.steps_taken() == 0);
    return text;
  };
  CHECK(contains(refusal(with_names({"dog"})),
                 "fit: the validation has the classes dog (1); the training data: cat (1)"));
  named_data other;
  other.size_of_images = {1, 2, 2};
  CHECK(contains(refusal(other), "the validation has images of 1x2x2"));
  other = {};
  other.number_of_classes = 2;
  CHECK(contains(refusal(other), "in 2 classes, the network takes 1x1x1 in 1"));
  other = {};
  other.count = 0;
  CHECK(contains(refusal(other), "the validation has no samples"));
  CHECK(contains(refusal({}, -1), "validation: .batch is"));
  CHECK(run.fit(feed, 1, validation{named_data{}, 5}).steps == 10);
}

TEST_CASE("data_description: files of weights have it, and what they are used with is compared") {
  const folder files;
  const std::string path = files.file("w.safetensors");
  quadratic<fp64> model;
  auto run = make_trainer(model);
  named_loader feed;
  run.fit(feed, 1, validation{named_data{}, 5});
  run.save(path, {{"network", "toy"}});
  const auto metadata = cordee::detail::io::tensor_file::open(path).metadata();
  for (const auto& [key, value] :
       {std::pair{"network", "toy"}, {"mean", "0.5"}, {"deviation", "0.25"}, {"classes", "cat"}})
    CHECK(std::count(metadata.begin(), metadata.end(),
                     std::pair<std::string, std::string>{key, value}) == 1);
  auto loaded = make_trainer(model);
  loaded.load(path);
  CHECK_NOTHROW((void)loaded.evaluate(named_data{}, gray));
  CHECK(contains(error_message([&] { (void)loaded.evaluate(with_names({"dog"}), gray); }),
                 "evaluate: the data set has the classes dog (1); the file /"));
  CHECK(contains(error_message([&] { (void)loaded.evaluate(named_data{}, {}); }),
                 "images are normalized by mean 0, deviation 1; the file"));
  feed.names = {"dog"};
  feed.next_step = 0;
  CHECK(contains(error_message([&] {
                   loaded.fit(feed, 1, validation{named_data{}, 5});
                 }),
                 "load(path, {.classifier = false})"));
  loaded.load(path, {.classifier = false});
  CHECK_NOTHROW(loaded.fit(feed, 1, validation{with_names({"dog"}), 5}));
}

TEST_CASE("data_description: class names that are not UTF-8, as of folders, can be written") {
  const folder files;
  const std::string path = files.file("w.safetensors"), latin = "caf\xe9";
  quadratic<fp64> model;
  auto run = make_trainer(model);
  named_loader feed;
  feed.names = {latin};
  run.fit(feed, 1, validation{with_names({latin}), 5});
  CHECK(run.fit_state().data.class_names == name_list{"caf\\xe9"});
  run.save(path);
  auto loaded = make_trainer(model);
  loaded.load(path);
  CHECK_NOTHROW((void)loaded.evaluate(with_names({latin}), gray));
  CHECK(contains(error_message([&] { (void)loaded.evaluate(with_names({"caf\xc3\xa9"}), gray); }),
                 "Class 0 is \"caf\xc3\xa9\", not \"caf\\xe9\""));
}

TEST_CASE("data_description: a run goes on with the classes and the normalization of before") {
  quadratic<fp64> model;
  auto run = make_trainer(model);
  named_loader feed;
  run.fit(feed, 1, validation{named_data{}, 5});
  const auto refusal = [&](named_loader other) {
    auto resumed = make_trainer(model);
    resumed.restore(run.state());
    other.next_step = 10;
    return error_message([&] { resumed.fit(other, 1, validation{named_data{}, 5}); });
  };
  named_loader other;
  CHECK(refusal(other).empty());
  other.names = {"dog"};
  CHECK(contains(refusal(other), "the training data has the classes dog (1); the run to be"));
  other = {};
  other.norm = {};
  CHECK(contains(refusal(other), "give the normalization that the weights were trained with"));
}
