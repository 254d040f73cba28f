// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/binary_cross_entropy.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/measure/predict.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent shape{3, 4, 4};
constexpr std::size_t classes = 7;
constexpr normalization norm{.mean = {0.25, 0.5, 0.75}, .scale = {5, 3, 4}};

template <class P>
using small = network<sequential<global_average_pool, linear<classes>>, P, cpu, reference, shape,
                      static_cast<int>(classes)>;

struct labelled_images {
  std::vector<std::uint8_t> pixels;
  std::vector<std::size_t> labels;

  explicit labelled_images(const synthetic& data) : pixels(data.size() * shape.size()) {
    for (std::size_t i = 0; i < data.size(); ++i)
      labels.push_back(static_cast<std::size_t>(
          data.read(i, std::span(pixels).subspan(i * shape.size(), shape.size()))));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("predict: evaluation's loss and its top 1 and 5 follow from it", P, fp64, bf16) {
  const synthetic data{
      .extent = shape, .classes = static_cast<int>(classes), .samples = 23, .seed = 3};
  const labelled_images images(data);
  small<P> net{cpu(1)};
  trainer run{net, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  const metrics expected = run.evaluate(data, norm, 4);
  const std::vector<double> p = predict(run, images.pixels, norm, 4);
  REQUIRE(p.size() == 23 * classes);
  double loss = 0;
  std::int64_t top1 = 0, top5 = 0;
  for (std::size_t n = 0; n < 23; ++n) {
    const auto row = p.begin() + static_cast<std::ptrdiff_t>(n * classes);
    CHECK(std::abs(std::accumulate(row, row + classes, 0.0) - 1) <= 1e-14);
    const double own = row[static_cast<std::ptrdiff_t>(images.labels[n])];
    const auto larger = std::count_if(row, row + classes, [&](double q) { return q > own; });
    loss -= std::log(own);
    top1 += larger < 1;
    top5 += larger < 5;
  }
  // Both sum 23 losses of about 2, evaluation in the precision's real numbers.
  CHECK(std::abs(loss - expected.loss) <= (std::is_same_v<P, fp64> ? 1e-13 : 1e-5) * loss);
  CHECK(top1 == expected.top1);
  CHECK(top5 == expected.top5);
}

TEST_CASE("predict: each rank has its own images, whatever the batch") {
  const synthetic data{
      .extent = shape, .classes = static_cast<int>(classes), .samples = 9, .seed = 3};
  const labelled_images images(data);
  small<fp64> alone{cpu(1)};
  trainer whole{alone, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  const std::vector<double> expected = predict(whole, images.pixels, norm);
  for (const int ranks : {1, 2, 3, 5}) {
    on_ranks(ranks, [&](threads comm) {
      small<fp64> net{cpu(1)};
      trainer run{net, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
      const auto r = static_cast<std::size_t>(comm.rank());  // the number of rank r's images
      const auto own = std::span(images.pixels).subspan(r * shape.size(), r * shape.size());
      for (const int batch : {1, 2, 250}) {
        const auto first = expected.begin() + static_cast<std::ptrdiff_t>(r * classes);
        const std::vector<double> mine(first, first + static_cast<std::ptrdiff_t>(r * classes));
        CHECK(predict(run, own, norm, batch) == mine);
      }
      return 0;
    });
  }
}

TEST_CASE("predict: refuses a part of an image") {
  small<fp64> net{cpu(1)};
  trainer run{net, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  const std::vector<std::uint8_t> pixels(shape.size() + 1);
  CHECK(contains(error_message([&] { (void)predict(run, pixels, norm); }),
                 "predict: 49 bytes are no whole number of images of 3x4x4, which have 48 bytes"));
  CHECK_THROWS_AS((void)predict(run, std::span(pixels).first(48), norm, 0), usage_error);
  run.fit_state().data = {{}, true, norm, "the file x"};
  CHECK_NOTHROW((void)predict(run, std::span(pixels).first(48), norm));
  CHECK(contains(error_message([&] { (void)predict(run, std::span(pixels).first(48), {}); }),
                 "predict: images are normalized by mean 0 0 0, deviation 1 1 1; the file x: mean "
                 "0.25 0.5 0.75, deviation 0.2 0.333333 0.25: give the normalization"));
}

TEST_CASE("predict: what is refused on one rank ends it on every rank") {
  const std::vector<std::uint8_t> pixels(2 * shape.size());
  for (const auto& [bytes, batch, text] :
       {std::tuple{shape.size() - 1, 250, "predict: 47 bytes are no whole number of images"},
        {shape.size(), 0, "predict: a batch has at least one image"}})
    CHECK(contains(error_at_peer([&, own = bytes, batch_size = batch](threads comm) {
                     small<fp64> net{cpu(1)};
                     trainer run{net, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
                     const bool wrong = comm.rank() == 0;
                     (void)predict(run, std::span(pixels).first(wrong ? own : shape.size()), norm,
                                   wrong ? batch_size : 250);
                   }),
                   text));
}

TEST_CASE("predict: a network with binary_cross_entropy has a sigmoid for each class") {
  const synthetic data{
      .extent = shape, .classes = static_cast<int>(classes), .samples = 5, .seed = 3};
  const labelled_images images(data);
  small<fp64>::with_loss<binary_cross_entropy> net{cpu(1)};
  trainer run{net, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  const std::vector<double> probabilities = predict(run, images.pixels, norm);
  REQUIRE(probabilities.size() == 5 * classes);
  for (std::size_t i = 0; i < probabilities.size(); ++i)  // logits: those of the last batch
    CHECK(std::abs(probabilities[i] - 1 / (1 + std::exp(-net.logits()[i]))) < 4e-16);
}

namespace {

/// 1 for the largest logit, else 0, which depends on all logits.
struct winner_takes_all {
  struct sample_loss {
    double value, largest;
    [[nodiscard]] double gradient(double, double) const { return 0; }
    [[nodiscard]] double probability(double z) const { return z == largest ? 1 : 0; }
  };
  template <class Sample>
  sample_loss operator()(const Sample& s) const {
    return {0, s.max_logit()};
  }
  bool operator==(const winner_takes_all&) const = default;
};

}  // namespace

TEST_CASE("predict: a probability of the network's loss is one of the sample's logits") {
  const synthetic data{
      .extent = shape, .classes = static_cast<int>(classes), .samples = 5, .seed = 3};
  const labelled_images images(data);
  small<fp64>::with_loss<winner_takes_all> net{cpu(1)};
  trainer run{net, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  const std::vector<double> probabilities = predict(run, images.pixels, norm);
  for (std::size_t n = 0; n < 5; ++n) {
    const auto row = static_cast<std::ptrdiff_t>(n * classes);
    CHECK(std::accumulate(probabilities.begin() + row, probabilities.begin() + row + classes,
                          0.0) == 1);
    const auto* z = net.logits().data + row;
    CHECK(probabilities[n * classes +
                        static_cast<std::size_t>(std::max_element(z, z + classes) - z)] == 1);
  }
}

TEST_CASE("trainer: a loss with values out of range is refused at construction") {
  small<fp64> net{cpu(1)};
  net.loss.label_smoothing = 1.5;
  CHECK_THROWS_WITH_AS((trainer{net, sgd{}, constant{.learning_rate = 0.1}, solo{}}),
                       doctest::Contains("cross_entropy: .label_smoothing is within 0 .. 1"),
                       usage_error);
}
