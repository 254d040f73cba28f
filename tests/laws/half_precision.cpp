// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks and trainers on the CPU with activations of 16 bits: gradients within the precision's
// rounding of fp64's, one curve for any number of ranks, bundled data that is learned, and a scale
// of the loss that is too large.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/idx.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/pad_crop_flip.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/amx/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

namespace {

/// Half a unit in the last place of a number near 1.
template <class P>
constexpr double unit_roundoff = 0;
template <>
constexpr double unit_roundoff<fp32> = 0x1p-24;
template <>
constexpr double unit_roundoff<bf16> = 0x1p-8;
template <>
constexpr double unit_roundoff<fp16> = 0x1p-11;

constexpr resnet_options lively{.image = {3, 16, 16}, .zero_gamma = false};

/// The gradient of a batch's mean loss at the initial weights, which every precision holds exactly
/// as masters; activations' gradients are multiplied by `loss_scale`.
template <class Layers, class P, class Engine>
std::vector<std::vector<double>> gradient(double loss_scale) {
  using net_type = network<Layers, P, cpu, Engine, lively.image, 10>;
  constexpr int samples = 8;
  std::vector<std::uint8_t> pixels(samples * net_type::input.size());
  random_sequence random(1, purpose::test, 0, 0);
  for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(random.bits());
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 4, 5, 6, 7};
  batch<cpu> b{{pixels.data(), pixels.size()}, {labels.data(), labels.size()}, samples, samples};
  b.normalization = {{0.5f, 0.5f, 0.5f, 0.0f}, {3.5f, 3.5f, 3.5f, 1.0f}};
  b.loss_scale = loss_scale;

  net_type net{cpu(2)};
  arena<typename P::master, cpu> memory(net.get_device(), net.segments(), 2);
  net.initialize(memory.plane(0), 1);
  for (auto& w : std::span(memory.plane(0))) w = static_cast<float>(w);
  auto packed = net.make_packed_parameters();
  const auto s = net.get_device().make_stream();
  net.pack_parameters(memory.plane(0), packed, s);
  net.forward(packed, memory.plane(0), b, phase::train, s);
  net.backward(
      packed, memory.plane(1), write_mode::overwrite, [](std::size_t) {}, s);
  std::vector<std::vector<double>> out;
  for (const segment& of : net.segments().first(net.tensors())) {
    out.emplace_back();
    for (const auto g : std::span(memory.plane(1)).subspan(of.offset, of.size))
      out.back().push_back(static_cast<double>(g) / loss_scale);
  }
  return out;
}

/// The distance of a gradient from the exact one, as part of the exact one's norm: of the whole
/// gradient, and of the tensor where it is largest.
struct distance {
  double whole = 0, tensor = 0;

  distance(const std::vector<std::vector<double>>& g,
           const std::vector<std::vector<double>>& exact) {
    double all_differences = 0, all = 0;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < exact[k].size(); ++i) {
        difference += (g[k][i] - exact[k][i]) * (g[k][i] - exact[k][i]);
        norm += exact[k][i] * exact[k][i];
      }
      REQUIRE(norm > 0);
      tensor = std::max(tensor, std::sqrt(difference / norm));
      all_differences += difference;
      all += norm;
    }
    whole = std::sqrt(all_differences / all);
  }
};

/// The distance of gradients by several engines and precisions, within bar(u).
template <class Layers, class Bar>
void check_gradients(double distance::*of, const Bar& bar) {
  const auto exact = gradient<Layers, fp64, direct>(1);
  const auto check = [&]<class P, class Engine>(P, Engine) {
    const double error =
        distance(gradient<Layers, P, Engine>(P::scales_loss ? 1024 : 1), exact).*of;
    INFO(P::name, " by ", Engine::name, ": ", error, " of ", bar(unit_roundoff<P>));
    CHECK(error < bar(unit_roundoff<P>));
    CHECK(error > unit_roundoff<P> / 8);  // it is computed in this precision
  };
  check(fp32{}, winograd{});
  check(bf16{}, winograd{});
  check(bf16{}, direct{});
  check(bf16{}, reference{});
  check(bf16{}, amx_with<tile_vectors>{});
  check(fp16{}, winograd{});
  check(fp16{}, direct{});
}

}  // namespace

TEST_CASE("half precision: gradients of smooth layers are fp64's, within their roundings") {
  // On the longest path: the input; of three layers weights, output and normalized output; pool,
  // classifier's weights, logits and their gradient; backward one of each but the last layer and
  // its norm. Of the whole gradient: a shift before a batch norm has next to none.
  constexpr double roundings = 1 + 3 * 3 + 4 + 2 + 3 * 2;
  using layers = sequential<convolution<16>, batch_norm<>, convolution<32, 3, 2>, batch_norm<>,
                            convolution<32>, batch_norm<>, global_average_pool, linear<10>>;
  check_gradients<layers>(&distance::whole, [](double u) { return roundings * u; });
}

namespace {
/// Of eight layers three roundings forward and two backward, and two more; and a number of error e
/// has the other sign before one of seven ReLUs with probability 0.8 e (normal numbers), e of 24
/// independent roundings. Then its whole gradient is the error.
double residual_bar(double u) { return 42 * u + std::sqrt(7 * 0.8 * std::sqrt(24.0) * u); }
}  // namespace

#if defined(CORDEE_ALL_TESTS)
TEST_CASE("half precision: gradients of a residual network are fp64's, within their roundings") {
  check_gradients<detail::nn::resnet_layers<8, lively>>(&distance::tensor, residual_bar);
}
#endif

namespace {

struct curve {
  std::vector<double> losses, norms;
};

template <class P, class O>
curve curve_of(int ranks, const O& optimizer, double learning_rate) {
  static constexpr resnet_options options{.image = {1, 8, 8}, .ghost_batch = 4};
  struct recorder {
    curve* to;
    void step(const step_record& r) {
      to->losses.push_back(r.train.mean_loss());
      to->norms.push_back(r.grad_norm);
    }
  };
  curve result;
  const synthetic data{.extent = options.image, .classes = 10, .samples = 96, .seed = 3};
  on_ranks(ranks, [&](threads comm) {
    resnet<8, P, cpu, options> net;
    loader feed{data,
                comm,
                {.global_batch = 24, .seed = 5},
                pad_crop_flip{.pad = 1, .flip = true},
                normalize::measured(data)};
    trainer run{net,
                optimizer,
                [learning_rate](double) { return learning_rate; },
                ring{comm},
                {.bucket_bytes = 1 << 14, .loss_scaling = {.initial = 1024}}};
    run.fit(feed, 4, recorder{&result});
    return 0;
  });
  return result;
}

template <class P, class O>
void check_one_curve(const O& optimizer, double learning_rate) {
  const curve alone = curve_of<P>(1, optimizer, learning_rate);
  REQUIRE(alone.losses.size() == 16);
  for (const int ranks : {2, 3}) {
    INFO(P::name, ", ranks ", ranks);
    const curve parallel = curve_of<P>(ranks, optimizer, learning_rate);
    REQUIRE(parallel.losses.size() == 16);
    // The first step has the same activations, rounding included. In its gradient only fp32 sums
    // over samples have another order: a rank's share of the loss is a multiple of 1/24, not a
    // power of two, so that gradients of activations are rounded at other places.
    CHECK(close(parallel.losses[0], alone.losses[0], 1e-6));
    CHECK(std::abs(parallel.norms[0] / alone.norms[0] - 1) < unit_roundoff<P>);
    // Later a master weight near the middle of two 16-bit numbers may be packed as the other one:
    // one rounding in each of eight layers.
    for (std::size_t k = 1; k < alone.losses.size(); ++k)
      CHECK(close(parallel.losses[k], alone.losses[k], 8 * unit_roundoff<P>));
  }
}

}  // namespace

TEST_CASE("half precision: 1, 2 and 3 ranks have the same loss curve within rounding") {
  const sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-3};
  check_one_curve<bf16>(momentum_sgd, 0.05);
  check_one_curve<fp16>(momentum_sgd, 0.05);
  check_one_curve<bf16>(lars{.trust_coefficient = 0.02}, 0.5);
}

TEST_CASE("half precision: a curve of losses and norms is fp64's, within roundings") {
  const sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-3};
  const curve exact = curve_of<fp64>(2, momentum_sgd, 0.05);
  const auto check = [&]<class P>(P) {
    const curve found = curve_of<P>(2, momentum_sgd, 0.05);
    REQUIRE(found.losses.size() == exact.losses.size());
    constexpr double u = unit_roundoff<P>;
    for (std::size_t k = 0; k < exact.losses.size(); ++k) {
      INFO(P::name, ", step ", k);
      // A tenth of the loss at most is the logits', of 24 roundings; the rest is the logarithm of
      // ten classes. Of gradients as above.
      CHECK(std::abs(found.losses[k] / exact.losses[k] - 1) < 24 * u / 10);
      CHECK(std::abs(found.norms[k] / exact.norms[k] - 1) < residual_bar(u));
    }
  };
  check(bf16{});
  check(fp16{});
}

TEST_CASE("half precision: two ranks learn bundled images, and hold the same bits") {
  const std::string folder = CORDEE_SOURCE_DIR "/data/fashion-mnist/";
  const idx data(folder + "t10k-images-idx3-ubyte", folder + "t10k-labels-idx1-ubyte");
  const auto check = [&]<class P>(P) {
    INFO(P::name);
    const auto ranks = on_ranks(2, [&](threads comm) {
      resnet<8, P, cpu, resnet_options{.image = {1, 28, 28}}> net{cpu(1)};
      loader feed{
          data, comm, {.global_batch = 64, .seed = 1}, pad_crop_flip{}, normalize::measured(data)};
      trainer run{net,
                  sgd{.momentum = 0.9},
                  constant{.learning_rate = 0.2},
                  ring{comm},
                  {.loss_scaling = {.initial = 1024}}};
      std::vector<double> losses;
      for (int k = 0; k < 32; ++k) losses.push_back(run.step(feed.next(), k).train.mean_loss());
      const auto w = run.weights().subspan(0, net.segments()[net.tensors()].offset);
      return std::pair(losses, std::vector<float>(w.begin(), w.end()));
    });
    CHECK(ranks[0].second == ranks[1].second);
    double before = 0, after = 0;
    for (const auto& [losses, weights] : ranks)
      for (std::size_t k = 0; k < 4; ++k) {
        before += losses[k] / 8;
        after += losses[losses.size() - 1 - k] / 8;
      }
    INFO("mean losses ", before, " and ", after);
    CHECK(before > 1.5);  // of a uniform guess 2.3
    CHECK(after < 0.7 * before);
  };
  check(bf16{});
  check(fp16{});
}

TEST_CASE("half precision: a loss scale that overflows fp16 is halved until steps are applied") {
  const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 16, .seed = 3};
  for (const int ranks : {1, 2}) {
    const auto held = on_ranks(ranks, [&](threads comm) {
      resnet<8, fp16, cpu, resnet_options{.image = {1, 8, 8}}> net{cpu(1)};
      loader feed{data, comm, {.global_batch = 8, .seed = 1}};
      trainer run{net,
                  sgd{},
                  constant{.learning_rate = 0.01},
                  ring{comm},
                  {.loss_scaling = {.initial = 0x1p24, .interval = 1000}}};
      bool as_expected = true, applied = false;
      double scale = 0x1p24;
      int skipped = 0;
      for (int k = 0; k < 16; ++k) {
        const auto before = copy(run.weights());
        const detail::train::step_outcome out = run.step(feed.next(), k);
        as_expected = as_expected && out.loss_scale == scale && std::isfinite(out.train.loss);
        if (!out.applied) {
          ++skipped;
          scale /= 2;
          as_expected = as_expected && !applied && same_bits(before, copy(run.weights()));
        }
        applied = out.applied;
      }
      // The largest finite half is 65504: the gradient of a logit, up to 2^24 / 8 times ranks, must
      // be halved five times at least.
      return as_expected && applied && skipped >= 5;
    });
    for (const bool h : held) CHECK(h);
  }
}
