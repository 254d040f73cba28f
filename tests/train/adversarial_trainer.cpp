// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network with adversarial images under the trainer.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

using model = adversarial<resnet<8, fp32, cpu, small>>;

struct outcome {
  double first = 0, last = 0, accuracy = 0;
  std::vector<float> weights;
};
std::vector<std::uint8_t> copies(const model& m) {
  const auto x = m.adversarial_images();
  return {x.begin(), x.end()};
}
template <class O>
outcome train(threads comm, const O& optimizer, double epochs,
              detail::nn::adversarial_options options = {}) {
  outcome result;
  struct recorder {
    outcome* result;
    void epoch(const epoch_record& e) {
      if (result->first == 0) result->first = e.train.mean_loss();
      result->last = e.train.mean_loss();
    }
  };
  model net(options);
  loader feed = feed_of(comm);
  trainer run{net, optimizer, steady, ring{comm}, {.seed = 3}};
  CHECK(describe(run, feed, epochs).find("within " + std::to_string(options.epsilon) + " of 255") !=
        std::string::npos);
  run.fit(feed, epochs, recorder{&result});
  result.accuracy = run.evaluate(data, {}).accuracy();
  result.weights.assign(run.weights().begin(), run.weights().end());
  return result;
}

}  // namespace

TEST_CASE("adversarial: 1, 3 and 4 ranks train, and have the same weights") {
  // One number of ranks trains until it has learned, the others for two epochs.
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const double epochs = ranks == 3 ? 8 : 2;
    const auto by_rank =
        on_ranks(ranks, [&](threads comm) { return train(comm, sgd{.momentum = 0.9}, epochs); });
    for (const outcome& o : by_rank) {
      const std::size_t trainable = model::segments()[model::tensors()].offset;
      CHECK(std::equal(o.weights.begin(),
                       o.weights.begin() + static_cast<std::ptrdiff_t>(trainable),
                       by_rank[0].weights.begin()));
    }
    if (ranks != 3) continue;
    CHECK(by_rank[0].last < 0.7 * by_rank[0].first);
    CHECK(by_rank[0].accuracy > 0.6);  // of 4 classes
  }
}

TEST_CASE(
    "adversarial: LARS rates its scales and shifts as any, and a run is repeated to the bit") {
  const auto run = [](threads comm) {
    return train(comm, lars{.trust_coefficient = 0.02}, 2, {.epsilon = 4, .steps = 2});
  };
  const auto once = on_ranks(3, run), again = on_ranks(3, run);
  CHECK(once[0].weights == again[0].weights);
  CHECK(once[0].last < once[0].first);
}

TEST_CASE("adversarial: fit, which looks ahead, has the bits of steps that do not") {
  const synthetic few{.extent = {1, 16, 16}, .classes = 4, .samples = 12, .seed = 3};
  for (const int ranks : {1, 2, 3})
    for (const bool is_stale : {true, false}) {
      if (!is_stale && ranks != 2) continue;  // nothing is made ahead
      on_ranks(ranks, [&](threads comm) {
        CAPTURE(ranks);
        const detail::nn::adversarial_options options{.steps = 2, .stale = is_stale};
        model ahead(options), alone(options);
        const auto feed_with = [&] {
          return loader{few, comm, {.global_batch = 6, .accumulate = 2, .seed = 5}, {}, {}};
        };
        loader feed = feed_with(), other = feed_with();
        trainer run{ahead, sgd{}, steady, ring{comm}, {.seed = 3}};
        trainer second{alone, sgd{}, steady, ring{comm}, {.seed = 3}};
        run.fit(feed, 2);
        for (int k = 0; k < 4; ++k) second.step(other.next(), other.epoch(k));
        CHECK(std::equal(run.weights().begin(), run.weights().end(), second.weights().begin()));
        // Two micro-batches in each of four steps; beside a step, all but the first one's.
        CHECK(run.packed_parameters().adversary->made_late() == (is_stale ? 2 : 8));
        CHECK(second.packed_parameters().adversary->made_late() == 8);
        return 0;
      });
    }
}

TEST_CASE("adversarial: a resumed run goes on with equal bits, by stale weights too") {
  for (const bool is_stale : {true, false})
    on_ranks(2, [&](threads comm) {
      const detail::nn::adversarial_options options{.stale = is_stale};
      model net(options), other(options);
      loader feed = feed_of(comm);
      trainer run{net, sgd{}, steady, ring{comm}, {.seed = 3}};
      trainer second{other, sgd{}, steady, ring{comm}, {.seed = 3}};
      for (int k = 0; k < 3; ++k) run.step(feed.next(), feed.epoch(k));
      const auto micro = feed.next();
      second.look_ahead(micro);  // what it has begun is of other weights
      std::copy(run.weights().begin(), run.weights().end(), second.weights().begin());
      std::copy(run.slot(0).begin(), run.slot(0).end(), second.slot(0).begin());
      const detail::train::run_state state = run.state();
      CHECK(state.model.empty() == !is_stale);
      second.restore(state);
      const double loss = run.step(micro, feed.epoch(3)).train.loss;
      CHECK(second.step(micro, feed.epoch(3)).train.loss == loss);
      CHECK(copies(net) == copies(other));
      CHECK(std::equal(run.weights().begin(), run.weights().end(), second.weights().begin()));
      return 0;
    });
}

TEST_CASE("adversarial: an evaluation of averaged weights leaves the stale ones") {
  const auto copies_after = [](bool evaluates) {
    model net;
    loader feed = feed_of(self_comm{});
    trainer run{net, weight_average{sgd{}, exponential_average{}}, steady, solo{}, {.seed = 3}};
    for (int k = 0; k < 3; ++k) {
      const auto micro = feed.next();
      run.look_ahead(micro);
      run.step(micro, feed.epoch(k));
      if (evaluates) run.evaluate(data, {});
    }
    return copies(net);
  };
  CHECK(copies_after(true) == copies_after(false));
}

TEST_CASE("adversarial: saved stale weights of another network are refused") {
  model net;
  trainer run{net, sgd{}, steady, solo{}};
  detail::train::run_state state = run.state();
  state.model.pop_back();
  CHECK(contains(error_message([&] { run.restore(state); }), "are of another network"));
}

TEST_CASE("adversarial: the network that is evaluated is saved alone, and a plain one loads it") {
  const folder files;
  const std::string path = files.file("evaluated.safetensors");
  on_ranks(2, [&](threads comm) {
    model net;
    loader feed = feed_of(comm);
    trainer run{net, sgd{.momentum = 0.9}, steady, ring{comm}, {.seed = 3}};
    run.fit(feed, 2);
    run.save_evaluated(path);
    resnet<8, fp32, cpu, small> plain;
    trainer second{plain, sgd{}, steady, ring{comm}, {.seed = 4}};
    CHECK(second.load(path).empty());
    CHECK(second.evaluate(data, {}).loss == run.evaluate(data, {}).loss);
    return 0;
  });
}

namespace {

using net64 = resnet<8, fp64, cpu, small>;

// Of one update: what a batch norm has learned and what it has seen.
struct norms_after_update {
  std::vector<double> scales, statistics;
};
/// Of segments whose names begin with `prefix`, in the plane's order.
template <class Run>
norms_after_update norms_of(Run& run, std::string_view prefix) {
  norms_after_update all;
  for (const segment& s : run.segments()) {
    if (s.name.starts_with("adversarial.") != !prefix.empty()) continue;
    if (s.kind != kind::scale && s.kind != kind::statistic) continue;
    auto& to = s.kind == kind::scale ? all.scales : all.statistics;
    for (std::size_t i = 0; i < s.size; ++i) to.push_back(run.weights()[s.offset + i]);
  }
  return all;
}
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  CHECK(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("adversarial: batch_norm_over takes each set of batch norms over all ranks' images") {
  // The plain network on the whole batch, or on the copies that the ranks have made.
  const auto plain = [](std::span<const std::uint8_t> pixels) {
    net64 net;
    loader feed = feed_of(self_comm{});
    trainer run{net, sgd{}, steady, solo{}, {.seed = 3}};
    auto micro = feed.next();
    batch<cpu> b = micro[0];
    if (!pixels.empty()) b.pixels = {pixels.data(), pixels.size()};
    run.step(std::span(&b, 1), 0);
    return norms_of(run, "");
  };
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    struct by_rank {
      norms_after_update clean, second;
      std::vector<std::uint8_t> copies;
    };
    const auto all = on_ranks(ranks, [&](threads comm) {
      adversarial<net64> net;
      loader feed = feed_of(comm);
      trainer run{net, sgd{}, steady, ring{comm}, {.batch_norm_over = 0, .seed = 3}};
      run.step(feed.next(), 0);
      const auto x = net.adversarial_images();
      return by_rank{norms_of(run, ""), norms_of(run, "adversarial."), {x.begin(), x.end()}};
    });
    std::vector<std::uint8_t> copies;
    for (const by_rank& r : all) copies.insert(copies.end(), r.copies.begin(), r.copies.end());
    const norms_after_update of_images = plain({}), of_copies = plain(copies);
    // Of magnitude 1, and rounded by 2^-53 in each of at most 2^15 additions.
    constexpr double bound = 0x1p-38;
    for (const by_rank& r : all) {
      CHECK(largest_difference(r.clean.statistics, of_images.statistics) < bound);
      CHECK(largest_difference(r.second.statistics, of_copies.statistics) < bound);
      // Scales begin at one, and each set has half of the loss.
      for (const auto& [scales, whole] : {std::pair{r.clean.scales, of_images.scales},
                                          std::pair{r.second.scales, of_copies.scales}}) {
        std::vector<double> twice;
        for (const double s : scales) twice.push_back(1 + 2 * (s - 1));
        CHECK(largest_difference(twice, whole) < bound);
      }
    }
  }
}
