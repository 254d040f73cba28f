// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/libtorch/torch_batches.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

namespace {

struct numbers_set : torch::data::Dataset<numbers_set> {
  example get(std::size_t i) override {
    return {torch::full({6}, static_cast<float>(i)), torch::tensor(static_cast<int>(i % 3))};
  }
  [[nodiscard]] c10::optional<std::size_t> size() const override { return 40; }
};

}  // namespace

TEST_CASE("torch_batches: the samples of a torch::data set that a batch_source asks for") {
  threads::launch(2, [](threads comm) {
    batch_source feed{40,
                      comm,
                      {.global_batch = 8, .seed = 3},
                      torch_batches{numbers_set().map(torch::data::transforms::Stack<>())}};
    batch_source indices{40, comm, {.global_batch = 8, .seed = 3}, [](const sample_indices& s) {
                           return std::vector<std::uint32_t>(s.samples.begin(), s.samples.end());
                         }};
    for (int k = 0; k < 7; ++k) {
      const auto found = feed.next();
      const auto expected = indices.next();
      REQUIRE(found.size() == 1);
      CHECK(found[0].count == 4);
      CHECK(found[0].data->data.size(0) == 4);
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto sample = (*expected[0].data)[static_cast<std::size_t>(i)];
        CHECK(found[0].data->data[i][5].item<float>() == static_cast<float>(sample));
        CHECK(found[0].data->target[i].item<int>() == static_cast<int>(sample % 3));
      }
    }
    auto net = std::make_shared<two_layers>();
    torch_model model{net, loss_of};
    trainer run{model, sgd{}, constant{}, ring{comm}};
    CHECK(run.fit(feed, 3).last.train.count > 0);
  });
}

TEST_CASE("torch_images: a loader's bytes, uncopied, and its labels") {
  loader images{synthetic{.extent = {3, 4, 5}, .samples = 50},
                self_comm{},
                {.global_batch = 10, .seed = 4},
                {},
                normalize::measured(synthetic{.extent = {3, 4, 5}, .samples = 50})};
  loader same{
      synthetic{.extent = {3, 4, 5}, .samples = 50}, self_comm{}, {.global_batch = 10, .seed = 4}};
  torch_images feed{images};
  static_assert(cordee::detail::train::Feed<decltype(feed)>);
  const auto found = feed.next();
  const auto expected = same.next();
  REQUIRE(found.size() == expected.size());
  const torch::Tensor& pixels = found[0].data->data;
  CHECK(pixels.sizes() == torch::IntArrayRef({10, 3, 4, 5}));
  for (std::int64_t i = 0; i < 600; ++i)
    REQUIRE(pixels.flatten()[i].item<int>() == expected[0].pixels[static_cast<std::size_t>(i)]);
  for (std::int64_t i = 0; i < 10; ++i)
    CHECK(found[0].data->target[i].item<int>() == expected[0].labels[static_cast<std::size_t>(i)]);
  const normalization n = images.normalization();
  const torch::Tensor floats = normalized(pixels, n);
  CHECK(floats[2][1][3][4].item<float>() ==
        doctest::Approx((pixels[2][1][3][4].item<float>() / 255 - n.mean[1]) * n.scale[1]));
  CHECK(feed.step() == 1);
  feed.seek(0);
  CHECK(images.step() == 0);
}
