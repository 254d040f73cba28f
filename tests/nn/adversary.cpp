// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What copies are is in adversarial.cpp; here, the thread that makes them.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/adversary.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp64.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;
using namespace cordee::detail;

namespace {

constexpr resnet_options tiny{.image = {3, 8, 8}, .classes = 4, .zero_gamma = false};
using net = resnet<8, fp64, cpu, tiny, reference>;

/// One whose forward pass waits, or throws.
struct delayed : net {
  static inline std::atomic<bool> throws = false;
  static inline std::atomic<int> milliseconds = 0;
  using net::net;
  void forward(const packed_parameters& in, span_on<double, cpu> plane, const batch<cpu>& b,
               phase p, cpu::stream s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    if (throws) throw error("the pass has failed");
    net::forward(in, plane, b, p, s);
  }
};

constexpr std::size_t count = 6;

struct fixture : network_fixture<delayed> {
  nn::adversary<delayed> adversary{net.get_device()};
  nn::attack_weights<delayed> weights_now{&packed, 1};

  fixture() : network_fixture<delayed>(count) {
    net.pack_parameters(weights(), packed, s);
    delayed::throws = false;
    delayed::milliseconds = 0;
  }
  /// Two micro-batches of step 5.
  [[nodiscard]] std::array<batch<cpu>, 2> update() const {
    std::array<batch<cpu>, 2> both{samples(0, 4, count), samples(4, 2, count)};
    both[1].first_sample = 4;
    for (batch<cpu>& b : both) {
      b.seed = 9;
      b.info = {&step, 1};
    }
    return both;
  }
  std::vector<std::uint8_t> copies(const batch<cpu>& b,
                                   const detail::nn::adversarial_options& o = {}) {
    const auto c = adversary.copies_of(o, weights_now, b);
    return {c.begin(), c.end()};
  }
  step_info step{.step = 5};
};

}  // namespace

TEST_CASE("adversary: copies made ahead have the bits of copies made when they are needed") {
  for (const int milliseconds : {0, 20}) {
    fixture ahead, late;
    const auto update = ahead.update();
    std::array<std::vector<std::uint8_t>, 2> expected;
    for (std::size_t k = 0; k < 2; ++k) expected[k] = late.copies(late.update()[k]);
    delayed::milliseconds = milliseconds;
    ahead.adversary.begin({}, ahead.weights_now, update, 9, 5);
    for (std::size_t k = 0; k < 2; ++k) CHECK(ahead.copies(update[k]) == expected[k]);
    CHECK(expected[0] !=
          std::vector<std::uint8_t>(update[0].pixels.begin(), update[0].pixels.end()));
  }
}

TEST_CASE("adversary: copies made ahead are used for what they are of alone") {
  fixture f;
  const auto update = f.update();
  const auto begin = [&] {
    f.adversary.begin({}, f.weights_now, update, 9, 5);
    f.adversary.finish();
    delayed::throws = true;  // whatever is made from now on
  };
  const auto made_anew = [&](const batch<cpu>& b, const detail::nn::adversarial_options& o = {}) {
    begin();
    const bool is_new = [&] {
      try {
        (void)f.copies(b, o);
        return false;
      } catch (const error&) {
        return true;
      }
    }();
    delayed::throws = false;
    return is_new;
  };
  CHECK_FALSE(made_anew(update[0]));
  CHECK_FALSE(made_anew(update[1]));
  CHECK(made_anew(update[0], {.steps = 2}));
  batch<cpu> other = update[0];
  other.seed = 8;
  CHECK(made_anew(other));
  other = update[0];
  other.first_sample = 1;
  CHECK(made_anew(other));
  other = update[0];
  const step_info next{.step = 6};
  other.info = {&next, 1};
  CHECK(made_anew(other));
  other = update[0];
  other.normalization.mean[0] += 1;
  CHECK(made_anew(other));
  f.pixels[7] ^= 1;                      // the same memory, another image
  CHECK(made_anew(update[0]) == false);  // begun with it
  begin();
  f.pixels[7] ^= 1;
  CHECK_THROWS_AS(f.copies(update[0]), error);
  delayed::throws = false;
  begin();
  f.labels[0] ^= 1;
  CHECK_THROWS_AS(f.copies(update[0]), error);
  delayed::throws = false;
  begin();
  f.weights_now.version = 2;
  CHECK_THROWS_AS(f.copies(update[0]), error);
}

TEST_CASE("adversary: the copies of a step stay while those of the next one are made") {
  fixture f, late;
  const auto update = f.update();
  const auto expected = late.copies(late.update()[1]);
  f.adversary.begin({}, f.weights_now, update, 9, 5);
  f.adversary.begin({}, f.weights_now, update, 9, 6);
  CHECK(f.copies(update[1]) == expected);
  CHECK(f.adversary.made_late() == 0);
  CHECK(late.adversary.made_late() == 1);
}

TEST_CASE("adversary: what its thread throws reaches the caller, once") {
  fixture f;
  const auto update = f.update();
  delayed::throws = true;
  f.adversary.begin({}, f.weights_now, update, 9, 5);
  f.adversary.finish();
  delayed::throws = false;
  CHECK_THROWS_WITH_AS(f.copies(update[0]), doctest::Contains("the pass has failed"), error);
  CHECK(f.copies(update[0]).size() == update[0].pixels.size);
  batch<cpu> wrong = update[0];
  wrong.pixels = wrong.pixels.subspan(0, 5);
  CHECK_THROWS_AS(f.adversary.begin({}, f.weights_now, std::span(&wrong, 1), 9, 5), usage_error);
}

TEST_CASE("adversary: weights that its thread reads are not changed before it ends") {
  fixture f;
  const auto update = f.update();
  const auto expected = f.copies(update[0]);
  typename delayed::packed_parameters others = f.net.make_packed_parameters();
  f.adversary.begin({}, f.weights_now, update, 8, 5);  // of another seed, so that it makes them
  f.adversary.finish();
  delayed::milliseconds = 30;
  f.adversary.begin({}, f.weights_now, update, 9, 5);
  f.adversary.finish(others);  // at once; then, for the weights that it reads:
  f.adversary.finish(f.packed);
  std::fill(f.packed.span().begin(), f.packed.span().end(), std::byte{});
  CHECK(f.copies(update[0]) == expected);
}
