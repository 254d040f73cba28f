// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class P>
using net_of = resnet<8, P, cpu, small>;

template <class Run>
std::vector<float> ranges_of(Run& run) {
  std::vector<float> out;
  for (const segment& s : run.segments())
    if (s.name.ends_with("input_min") || s.name.ends_with("input_max"))
      out.push_back(run.weights()[s.offset]);
  return out;
}

}  // namespace

TEST_CASE("int8: all ranks end with equal weights and ranges from different data") {
  struct end {
    std::vector<float> weights, ranges;
    double first, last;
  };
  for (const int ranks : {2, 3, 5, 8}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      net_of<int8> net;
      auto feed = feed_of(comm);
      trainer run{net, sgd{.momentum = 0.9}, steady, ring{comm}};
      end e;
      for (int k = 0; k < 6; ++k) {
        const auto out = run.step(feed.next(), 0);
        CHECK(out.applied);
        (k == 0 ? e.first : e.last) = out.train.mean_loss();
      }
      const auto w = run.weights();
      e.weights.assign(w.data, w.data + detail::core::count_trainable(run.segments()));
      e.ranges = ranges_of(run);
      return e;
    });
    for (const end& e : by_rank) {
      CHECK(e.weights == by_rank[0].weights);
      CHECK(e.ranges == by_rank[0].ranges);
      CHECK(e.ranges.size() == 14);
      CHECK(std::isfinite(e.last));
      for (std::size_t k = 0; k < e.ranges.size(); k += 2) CHECK(e.ranges[k] <= e.ranges[k + 1]);
    }
  }
}

TEST_CASE("int8: the first range is the union over ranks, and a skipped step changes none") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      net_of<int8> net;
      auto feed = feed_of(comm);
      trainer run{net, sgd{}, steady, ring{comm}};
      for (const float r : ranges_of(run)) CHECK(std::isinf(r));
      std::vector<batch<cpu>> all;
      for (const batch<cpu>& b : feed.next()) all.push_back(b);
      run.step(all, 0);
      const auto first_ranges = ranges_of(run);
      // Pixels over 255: the widest pixel of all ranks' batches is the first layer's.
      double most = 0;
      for (const auto& b : all)
        for (std::size_t i = 0; i < static_cast<std::size_t>(b.count) * 256; ++i)
          most = std::max(most, b.pixels[i] / 255.0);
      std::array<double, 1> widest{most};
      allreduce_host(run.comm(), std::span<double>(widest), reduce_op::max);
      const bool right = first_ranges[1] == static_cast<float>(widest[0]);
      for (batch<cpu>& b : all) b.normalization.scale[0] = std::numeric_limits<float>::infinity();
      const auto out = run.step(all, 0);
      return right && !out.applied && ranges_of(run) == first_ranges;
    });
    for (const bool held : by_rank) CHECK(held);
  }
}

TEST_CASE("int8: frozen statistics and ranges are equal on all ranks, and constant") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      net_of<int8> net;
      net.freeze_batch_norm_at = net.quantization.freeze_ranges_at = 1.5;
      auto feed = feed_of(comm);
      trainer run{net, sgd{}, steady, ring{comm}};
      std::vector<std::vector<float>> after;
      for (const double epoch : {0.0, 1.0, 1.5, 2.0}) {
        run.step(feed.next(), epoch);
        const auto info = run.statistics();
        after.emplace_back(info.data, info.data + info.size);
      }
      CHECK(after[0] != after[1]);
      CHECK(after[2] == after[3]);
      return after;
    });
    if (ranks > 1) CHECK(by_rank[0][1] != by_rank[1][1]);  // each rank's own
    for (const auto& after : by_rank) CHECK(after[2] == by_rank[0][2]);
  }
}

TEST_CASE("int8: a rank without samples in the first step gets the others' ranges") {
  for (const int ranks : {2, 3}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      net_of<int8> net;
      auto feed = feed_of(comm);
      trainer run{net, sgd{}, steady, ring{comm}};
      std::vector<batch<cpu>> all;
      if (comm.rank() == 0)
        for (const batch<cpu>& b : feed.next()) all.push_back(b);
      run.step(all, 0);
      for (const float r : ranges_of(run)) CHECK(std::isfinite(r));
      const auto w = run.weights();
      return std::pair(
          std::vector<float>(w.data, w.data + detail::core::count_trainable(run.segments())),
          ranges_of(run));
    });
    for (const auto& one : by_rank) CHECK(one == by_rank[0]);
  }
}

TEST_CASE("int8: invalid quantization settings are rejected at construction, by name") {
  net_of<int8> net;
  auto& q = net.quantization;
  const auto message = [&] {
    return error_message([&] { const trainer run{net, sgd{}, steady, solo{}}; });
  };
  CHECK(message().empty());
  for (const double none : {1.5, -0.1, std::nan("")}) {
    q.averaging = none;
    CHECK(contains(message(), "quantization.averaging"));
  }
  q.averaging = 1;
  for (const double none : {50.0, 101.0, std::nan("")}) {
    q.percentile = none;
    CHECK(contains(message(), "quantization.percentile"));
  }
}

TEST_CASE("percentile: ranks with parts of the data have the range of one with all of it") {
  struct bare {
    detail::nn::quantization_options quantization;
  };
  std::vector<float> x;
  for (int i = 0; i < 960; ++i) x.push_back(std::sin(static_cast<float>(i)) * (i % 50 ? 1 : 9));
  const auto range_over = [&](int ranks) {
    return on_ranks(ranks, [&](threads comm) {
      bare model;
      auto& q = model.quantization;
      q.percentile = 98;
      q.observer.layers.resize(1);
      q.observer.layers[0].high_offset = 1;
      const std::size_t each = x.size() / static_cast<std::size_t>(ranks);
      const float* const part = x.data() + each * static_cast<std::size_t>(comm.rank());
      std::vector<float> plane{std::numeric_limits<float>::infinity(), -1};
      const auto step = [&](bool counts) {
        q.observe(0, range_of(each, part, {}), each, part, {});
        detail::train::update_ranges(model, comm, span_on<float, cpu>{plane.data(), 2}, step_info{},
                                     counts);
      };
      step(false);
      CHECK(std::isinf(plane[0]));
      step(true);
      return plane;
    });
  };
  const auto expected = range_over(1)[0];
  CHECK(expected[1] > 0.9f);
  CHECK(expected[1] < 2);
  for (const int ranks : {2, 3, 5, 8})
    for (const auto& plane : range_over(ranks)) CHECK(plane == expected);
}

TEST_CASE("int8: learns as fp32 does, and evaluates in int8") {
  net_of<int8> net;
  auto feed = feed_of(self_comm{});
  trainer run{net, sgd{.momentum = 0.9}, steady, solo{}};
  CHECK_THROWS_AS(run.evaluate(data, feed.normalization()), error);  // no ranges yet
  const auto done = run.fit(feed, 10);
  CHECK(done.skipped == 0);
  const metrics held = run.evaluate(data, feed.normalization());
  CHECK(held.accuracy() > 0.9);
  // Ranges are saved and loaded; fp32 reads the file as well, and int8 reads fp32's.
  const folder here;
  const std::string path = here.file("int8.safetensors");
  run.save(path);
  net_of<int8> other_net;
  trainer other{other_net, sgd{}, steady, solo{}, {.seed = 9}};
  other.load(path);
  CHECK(ranges_of(other) == ranges_of(run));
  CHECK(other.evaluate(data, feed.normalization()).loss == held.loss);
  net_of<fp32> full_net;
  trainer full{full_net, sgd{}, steady, solo{}};
  full.load(path);
  CHECK(full.evaluate(data, feed.normalization()).accuracy() > 0.9);
  full.save(path);
  net_of<int8> bare_net;
  trainer bare{bare_net, sgd{}, steady, solo{}};
  // A network that had ranges before has none after loading a file without ranges.
  for (auto* const one : {&bare, &other}) {
    one->load(path);
    CHECK_THROWS_WITH_AS(one->evaluate(data, feed.normalization()),
                         doctest::Contains("layer \"conv1\""), error);
  }
}
