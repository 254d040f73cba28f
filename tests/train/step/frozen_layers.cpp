// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/step/frozen_layers.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

using net_type = resnet<8, fp64, cpu, small>;
using names = std::string;  // "conv1, bn1"

/// Steps of `Inner` on a gradient that is zero,
/// and weights that do not decay, where names begin so.
template <class Inner>
struct zeroing : Inner {
  names zeroed;

  template <class Real, class D>
  void accept(const optimizer_view<Real, D, Inner::slots>& v, const step_info& info,
              typename D::stream s) const {
    const auto before = copy(v.weights);
    const auto each = [&](const auto& f) {
      for (const segment& t : v.segments)
        if (detail::train::is_frozen(t, zeroed))
          for (std::size_t i = 0; i < t.size; ++i) f(t.offset - v.segments.front().offset + i);
    };
    each([&](std::size_t i) { v.grads[i] = 0; });
    Inner::accept(v, info, s);
    each([&](std::size_t i) { v.weights[i] = before[i]; });
  }
};

/// Notes what becomes ready.
struct watched : net_type {
  std::vector<std::size_t> ready;
  template <class Ready>
  void backward(const packed_parameters& in, span_on<double, cpu> gradients, write_mode mode,
                Ready&& f, cpu::stream s) {
    net_type::backward(
        in, gradients, mode, [&](std::size_t k) { ready.push_back(k), f(k); }, s);
  }
};

// Two epochs of four updates, of six images: few, since each network is trained by many policies.
const synthetic few{.extent = {1, 16, 16}, .classes = 4, .samples = 24, .seed = 3};
template <class Communicator>
auto few_of(const Communicator& comm) {
  return loader{few, comm, {.global_batch = 6, .seed = 5}, {}, {}};
}

bool is_among(const segment& s, const names& some) { return detail::train::is_frozen(s, some); }

/// Whether the segments named keep their bits, and whether every other trainable one changes.
struct movement {
  bool kept = true, moved = true;
};
template <class Weights>
movement compare(const Weights& before, const Weights& after, const names& frozen) {
  movement m;
  for (const segment& s : net_type::segments()) {
    const auto at = [&](const Weights& w) {
      return w.begin() + static_cast<std::ptrdiff_t>(s.offset);
    };
    const bool same =
        std::equal(at(before), at(before) + static_cast<std::ptrdiff_t>(s.size), at(after));
    if (is_among(s, frozen))
      m.kept &= same;
    else
      m.moved &= !same;
  }
  return m;
}

template <class O, class R>
movement train(const O& optimizer, const R& reducer, const names& frozen) {
  net_type net;
  auto feed = few_of(reducer.comm);
  trainer run{net, optimizer, steady, reducer, {.seed = 1, .freeze = frozen}};
  const auto before = copy(run.weights());
  run.fit(feed, 2);
  return compare(before, copy(run.weights()), frozen);
}

}  // namespace

TEST_CASE("freeze: frozen tensors and statistics keep every bit, all others move") {
  const names first{"conv1, bn1, layer1"}, middle{"layer2"}, mixed{"layer1.0.conv1,fc.bias"};
  for (const names& frozen : {first, middle, mixed}) {
    const auto check = [](const movement& m) {
      CHECK(m.kept);
      CHECK(m.moved);
    };
    check(train(sgd{.momentum = 0.9, .weight_decay = 0.01}, solo{}, frozen));
    check(train(lars{.weight_decay = 0.01}, solo{}, frozen));
    for (const int ranks : {2, 3})
      threads::launch(
          ranks,
          [&](threads comm) {
            check(train(sgd{.momentum = 0.9, .weight_decay = 0.01}, ring{comm}, frozen));
            check(train(local_steps{sgd{.weight_decay = 0.01}, 2}, ring{comm}, frozen));
            check(train(decentlam{.weight_decay = 0.01}, gossip{comm, topologies::ring{}}, frozen));
          },
          long_deadline);
  }
}

TEST_CASE("freeze: the others move as where frozen gradients are zero") {
  for (const names& frozen : {names{"layer1.0.conv1"}, names{"conv1"}, names{"layer3.0.conv2, fc"}})
    for (const int ranks : {1, 2})
      threads::launch(
          ranks,
          [&](threads comm) {
            const auto weights_of = [&](const auto& optimizer, const names& freeze) {
              net_type net;
              auto feed = few_of(comm);
              trainer run{net, optimizer, steady, ring{comm}, {.seed = 1, .freeze = freeze}};
              run.fit(feed, 2);
              return copy(run.weights());
            };
            const sgd plain{.momentum = 0.9, .weight_decay = 0.01};
            CHECK(weights_of(plain, frozen) == weights_of(zeroing<sgd>{plain, frozen}, {}));
          },
          long_deadline);
}

TEST_CASE("freeze: backward ends at the first layer that is trained") {
  watched net;
  auto feed = feed_of(self_comm{});
  trainer run{net, sgd{}, steady, solo{}, {.freeze = "conv1, bn1, layer1, layer2"}};
  run.step(feed.next(), 0);
  const auto first = *std::min_element(net.ready.begin(), net.ready.end());
  CHECK(net_type::segments()[first].name == "layer3.0.conv1.weight");
  trainer all{net, sgd{}, steady, solo{}};  // nothing is frozen in a further trainer
  all.step(feed.next(), 0);
  CHECK(net.ready.back() == 0);
}

TEST_CASE("freeze: frozen tensors are in no bucket, and described") {
  net_type net;
  auto feed = feed_of(self_comm{});
  trainer run{net, sgd{}, steady, solo{}, {.bucket_bytes = 4096, .freeze = "layer2,bn1"}};
  std::size_t exchanged = 0;
  for (const bucket& b : run.buckets())
    for (const segment& s : b.segments) {
      CHECK_FALSE(is_among(s, "layer2, bn1"));
      CHECK(s.offset >= b.offset);
      CHECK(s.end() <= b.offset + b.size);
      ++exchanged;
    }
  std::size_t frozen = 0;
  for (const segment& s : net_type::segments().first(net_type::tensors()))
    frozen += is_among(s, "layer2, bn1") ? 1 : 0;
  CHECK(exchanged + frozen == net_type::tensors());
  CHECK(describe(run, feed, 1).find("frozen          layer2, bn1: ") != std::string::npos);
}

TEST_CASE(
    "freeze: frozen tensors have no momentum in memory, and no gradients if layers allow it") {
  const std::size_t plane = net_type::plane_size() * sizeof(double);
  const auto bytes_of = []<class Net>(Net net, const names& freeze) {
    return trainer{net, sgd{}, steady, solo{}, {.freeze = freeze}}.arena_bytes();
  };
  CHECK(bytes_of(net_type{}, "") == 3 * plane);
  std::size_t trained = 0;
  for (const segment& s : net_type::segments().first(net_type::tensors()))
    if (is_among(s, "fc")) trained += detail::core::align_up(s.size) * sizeof(double);
  CHECK(bytes_of(net_type{}, "conv1, bn1, layer") == plane + 2 * trained);
  CHECK(bytes_of(watched{}, "conv1, bn1, layer") == 2 * plane + trained);
}

TEST_CASE("freeze: gradients that have no memory are refused by name, and saved as zeros") {
  net_type net;
  auto feed = feed_of(self_comm{});
  trainer run{net, sgd{}, steady, solo{}, {.freeze = "conv1, bn1, layer1, layer2"}};
  run.step(feed.next(), 0);
  CHECK_THROWS_WITH_AS((void)run.grads(),
                       doctest::Contains("no gradients: held_grads() is those of the others"),
                       usage_error);
  CHECK_THROWS_WITH_AS((void)run.grads("conv1.weight"),
                       doctest::Contains("\"conv1.weight\" is frozen"), usage_error);
  CHECK(run.grads("layer3.0.conv1.weight").data == run.held_grads().numbers.data);
  CHECK(run.grads("fc.bias")[0] != 0);
  const folder files;
  run.save_gradients(files.file("gradients"));
  const auto saved = detail::io::tensor_file::open(files.file("gradients"));
  for (const segment& s : net_type::segments().first(net_type::tensors())) {
    std::vector<double> numbers(s.size, 7);
    saved.read(s.name, std::span(numbers));
    CHECK(numbers ==
          (run.held_grads().has(s) ? copy(run.grads(s.name)) : std::vector<double>(s.size)));
  }
  trainer all{net, sgd{}, steady, solo{}};  // of the same network: nothing is frozen now
  CHECK_THROWS_WITH_AS(run.step(feed.next(), 0), doctest::Contains("the plane is smaller"),
                       usage_error);
}

TEST_CASE("freeze: no step touches gradients that a layer of one's own would not write") {
  watched net;
  auto feed = feed_of(self_comm{});
  // layer3.0.bn1 is frozen between others, and its gradient is cleared.
  const names frozen{"conv1, bn1, layer1, layer2, layer3.0.conv1, layer3.0.bn1"};
  trainer run{net, sgd{}, steady, solo{}, {.freeze = frozen}};
  for (const double g : run.grads()) REQUIRE(g == 0);
  for (double& g : run.grads()) g = 7;
  run.step(feed.next(), 0);
  std::size_t written = 0;
  for (const segment& s : net_type::segments().first(net_type::tensors())) {
    const auto gradient = run.grads(s.name);
    const auto sevens = std::count(gradient.begin(), gradient.end(), 7.0);
    CHECK(sevens == (is_among(s, "conv1, bn1, layer1, layer2") ? std::ssize(copy(gradient)) : 0));
    written += sevens == 0 ? 1 : 0;
  }
  CHECK(written > 6);
}

TEST_CASE("freeze: a layer of bytes keeps the range of its input, and computes no gradient") {
  resnet<8, int8, cpu, small> net;
  auto feed = feed_of(self_comm{});
  trainer run{net, sgd{}, steady, solo{}, {.freeze = "layer2"}};
  const auto range = [&] {
    return std::array{run.weights("layer2.0.conv2.input_min")[0],
                      run.weights("layer2.0.conv2.input_max")[0],
                      run.weights("layer1.0.conv2.input_max")[0]};
  };
  run.step(feed.next(), 0);  // before which no range is known
  const auto first = range();
  CHECK(first[0] < first[1]);
  run.step(feed.next(), 0);
  const auto second = range();
  CHECK(second[0] == first[0]);
  CHECK(second[1] == first[1]);
  CHECK(second[2] != first[2]);  // of a layer that is trained
  for (const float g : run.grads("layer2.0.conv2.weight")) CHECK(g == 0);
  CHECK(run.grads("layer1.0.conv2.weight")[0] != 0);
  auto weights = copy(run.weights());
  net.forward(run.packed_parameters(), span_on<float, cpu>{weights.data(), weights.size()},
              feed.next()[0], phase::train, run.compute());
  std::vector<float> plane(net.plane_size(), 7);
  net.backward(
      run.packed_parameters(), span_on<float, cpu>{plane.data(), plane.size()},
      write_mode::overwrite, [](std::size_t) {}, run.compute());
  for (const segment& s : net.segments().first(net.tensors()))
    CHECK((std::count(&plane[s.offset], &plane[s.offset] + s.size, 7.0f) != 0) ==
          is_among(s, "layer2"));
}

TEST_CASE("freeze: names without a tensor, or of all tensors, are refused") {
  net_type net;
  const auto with = [&](const names& freeze) {
    trainer run{net, sgd{}, steady, solo{}, {.freeze = freeze}};
  };
  CHECK_THROWS_WITH_AS(with("layer9"),
                       doctest::Contains("no tensor of the network begins with \"layer9\""),
                       usage_error);
  CHECK_THROWS_WITH_AS(with("conv1,,bn1"), doctest::Contains("begins with \"\""), usage_error);
  CHECK_THROWS_WITH_AS(with("conv, bn, layer, fc"), doctest::Contains("nothing is left to train"),
                       usage_error);
}

TEST_CASE("frozen_layers: the group of a segment is those named alike up to a dot") {
  const auto named = [](std::string_view name, std::size_t offset) {
    segment s{};
    s.name = name;
    s.offset = offset;
    return s;
  };
  const std::vector<segment> names{named("conv1.weight", 0), named("layer1.0.conv1.weight", 64),
                                   named("layer1.1.conv1.weight", 128), named("fc.weight", 192)};
  const std::span<const segment> all(names);
  CHECK(detail::train::first_group(all, all.subspan(2)) == 64);
  CHECK(detail::train::first_group(all, all.subspan(3)) == 192);
  CHECK(detail::train::first_group(all, all) == 0);
  CHECK(detail::train::first_group(all, all.first(0)) == 0);
}
