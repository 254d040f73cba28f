// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// With the double of cuDNN of tests/support/cudnn_on_host.hpp, whose engines take the times given.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/plan_cache.hpp>

#include "tests/support/cudnn_on_host.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using detail::ops::convolution_pass;
using detail::ops::cudnn_plan_cache;
using detail::ops::cudnn_plan_key;
using support::error_message;
using support::host_engine;
using support::host_state;

namespace {

constexpr convolution_problem layer{{4, 5, 3}, 4, 3, 1, 1};

/// An empty plan cache over a cuDNN with these engines.
struct cache_fixture {
  explicit cache_fixture(std::vector<host_engine> engines,
                         std::vector<host_engine> fallbacks = {}) {
    host_state() = {};
    host_state().engines = std::move(engines);
    host_state().fallbacks = std::move(fallbacks);
    host_state().handles = 1;
  }
  void run(const cudnn_plan_key& key) {
    std::vector<float> x(static_cast<std::size_t>(key.samples) * 60), w(144), y(x.size());
    cache.execute(key, {x.data(), w.data(), y.data()}, stream);
  }
  std::vector<int> executed(const cudnn_plan_key& key) {
    host_state().executed.clear();
    run(key);
    return host_state().executed;
  }

  support::host_cuda::stream stream = support::host_cuda{}.make_stream();
  cudnn_plan_cache cache;
};
cudnn_plan_key plan_key(int samples = 2, convolution_pass pass = {}) {
  return {layer, samples, pass, CUDNN_DATA_FLOAT, false, {}};
}
}  // namespace

TEST_CASE("plan_cache: the fastest engine is selected on first use, and used from then on") {
  cache_fixture d({{.index = 7, .milliseconds = 3}, {.index = 8, .milliseconds = 1}},
                  {{.index = 9, .milliseconds = 2}});
  const std::vector<int> first = d.executed(plan_key());
  CHECK(std::ranges::count(first, 7) > 1);
  CHECK(std::ranges::count(first, 9) > 1);
  CHECK(first.back() == 8);
  const int heuristics_before = host_state().heuristics;
  CHECK(d.executed(plan_key()) == std::vector<int>{8});
  CHECK(host_state().heuristics == heuristics_before);
}

TEST_CASE("plan_cache: the host's time to launch on an idle stream is not the engine's") {
  cache_fixture d({{.index = 7, .milliseconds = 1, .host_milliseconds = 5},
                   {.index = 8, .milliseconds = 2},
                   {.index = 9, .milliseconds = 3, .host_milliseconds = 1}});
  CHECK(d.executed(plan_key()).back() == 7);
}

TEST_CASE("plan_cache: at most twelve engines are timed") {
  std::vector<host_engine> engines;
  for (int i = 0; i < 40; ++i)
    engines.push_back({.index = i, .milliseconds = static_cast<float>(40 - i)});
  CHECK(cache_fixture(engines).executed(plan_key()).back() == 11);
}

TEST_CASE(
    "plan_cache: an engine that the device does not support, or that fails, is not selected") {
  cache_fixture d({{.index = 7, .milliseconds = 1, .finalises = false},
                   {.index = 8, .milliseconds = 1, .executes = false},
                   {.index = 9, .milliseconds = 5},
                   {.index = 10, .milliseconds = 4}});
  CHECK(d.executed(plan_key()).back() == 10);
}

TEST_CASE(
    "plan_cache: deterministic selects the heuristics' first deterministic engine, without "
    "timing") {
  cache_fixture d({{.index = 7, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
                   {.index = 8, .milliseconds = 9, .notes = {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}},
                   {.index = 9}});
  cudnn_plan_key key = plan_key();
  key.settings.deterministic = true;
  CHECK(d.executed(key) == std::vector<int>{8});
  CHECK(d.executed(plan_key()).back() == 7);  // other settings, another key
}

TEST_CASE("plan_cache: keys differ by layer, samples, pass, accumulation and settings") {
  cache_fixture d({{.index = 7, .milliseconds = 2}, {.index = 8}});
  d.run(plan_key());
  const int once = host_state().heuristics;
  std::vector<cudnn_plan_key> others{plan_key(3), plan_key(2, convolution_pass::dgrad),
                                     plan_key(2, convolution_pass::wgrad)};
  others.push_back(others[1]);
  others.back().accumulate = true;
  others.push_back(plan_key());
  others.back().settings.tf32 = true;
  for (const cudnn_plan_key& key : others) d.run(key);
  CHECK(host_state().heuristics == once * 6);
  for (const cudnn_plan_key& key : others) CHECK(d.executed(key) == std::vector<int>{8});
}

TEST_CASE("plan_cache: a variant pack is made once for each set of addresses") {
  cache_fixture d(std::vector<host_engine>{{.index = 7}});
  const std::size_t n = 2 * layer.in.size();
  std::vector<float> x(n, 1), w(layer.weights(), 1), y(n), other(n);
  const auto run_to = [&](std::vector<float>& to) {
    std::ranges::fill(y, 0.0f);
    std::ranges::fill(other, 0.0f);
    d.cache.execute(plan_key(), {x.data(), w.data(), to.data()}, d.stream);
    return to;
  };
  const std::vector<float> sums = run_to(y);
  CHECK(sums[0] == 16);  // a corner: four pixels of four channels
  CHECK(host_state().variant_packs == 1);
  CHECK(run_to(y) == sums);
  CHECK(host_state().variant_packs == 1);
  CHECK(run_to(other) == sums);
  CHECK(host_state().variant_packs == 2);
  CHECK(run_to(y) == sums);
  CHECK(host_state().variant_packs == 2);

  const int before = host_state().descriptors;
  std::vector<float> many(n + 4 * 600);
  for (std::size_t k = 0; k < 600; ++k) {
    float* const to = many.data() + 4 * k;
    d.cache.execute(plan_key(), {x.data(), w.data(), to}, d.stream);
    if (to[0] != 16) FAIL("set ", k);
  }
  CHECK(host_state().descriptors < before + 300);
}

TEST_CASE("plan_cache: a plan is executed with the workspace it needs") {
  // The double writes to all of it: the sanitizers see one that is too small.
  cache_fixture d({{.index = 7, .workspace = 1000}, {.index = 8, .milliseconds = 2}});
  CHECK(d.executed(plan_key()).back() == 7);
}

TEST_CASE(
    "plan_cache: an engine whose workspace cannot be allocated is not selected, and leaves no "
    "error behind") {
  cache_fixture d({{.index = 7, .workspace = 1000}, {.index = 8, .milliseconds = 2}});
  host_state().memory = 999;
  CHECK(d.executed(plan_key()) == std::vector<int>(2 * (1 + 3) + 1, 8));
  float x = 1;
  for_each(d.stream, 1, [&x](std::size_t) { x = 2; });
  CHECK(x == 2);
}

TEST_CASE("plan_cache: without an engine, or if the only one fails, the error names the layer") {
  const std::string none = error_message([] { cache_fixture({}).run(plan_key()); });
  CAPTURE(none);
  CHECK(none.find("no engine of this version") != std::string::npos);
  CHECK(none.find("(fprop of 4x5x3 -> 4x5x3, window 3") != std::string::npos);
  const host_engine broken{.executes = false};
  const std::string failed = error_message(
      [&] { cache_fixture(std::vector{broken}).run(plan_key(2, convolution_pass::wgrad)); });
  CAPTURE(failed);
  CHECK(failed.find("cudnnBackendExecute") != std::string::npos);
  CHECK(failed.find("this engine fails") != std::string::npos);
  CHECK(failed.find("(wgrad of") != std::string::npos);
  const std::string both = error_message([&] {
    cache_fixture(std::vector{broken, broken}).run(plan_key());
  });
  CHECK(both.find("this engine fails") != std::string::npos);
}

TEST_CASE("plan_cache: every device has its own, which all threads share") {
  host_state() = {};
  cudnn_plan_cache* seen[2][2] = {};
  const auto look = [](auto& of_thread) {
    for (const int ordinal : {0, 1}) {
      host_state().device = ordinal;
      of_thread[ordinal] = &cudnn_plan_cache::current();
    }
  };
  look(seen[0]);  // this thread's remain while the other one looks
  std::thread([&] { look(seen[1]); }).join();
  host_state().device = 0;
  CHECK(seen[0][0] != seen[0][1]);
  CHECK(seen[1][0] == seen[0][0]);
  CHECK(seen[1][1] == seen[0][1]);
}

TEST_CASE("plan_cache: a thread finds the plans that another, which has ended, selected") {
  host_state() = {};
  host_state().engines = {host_engine{.index = 7, .milliseconds = 2}, host_engine{.index = 8}};
  std::vector<float> x(5 * 60), w(144), y(x.size());
  const auto run = [&] {
    cudnn_plan_cache::current().execute(plan_key(5), {x.data(), w.data(), y.data()},
                                        support::host_cuda{}.make_stream());
  };
  std::thread(run).join();
  CHECK(host_state().heuristics == 2);  // modes A and fallback
  host_state().executed.clear();
  std::thread(run).join();
  CHECK(host_state().heuristics == 2);
  CHECK(host_state().executed == std::vector<int>{8});
}

TEST_CASE("plan_cache: threads take turns with the handle") {
  host_state() = {};
  cudnn_plan_cache cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache] {
      std::vector<float> x(2 * 60), w(144), y(x.size());
      for (int k = 0; k < 20; ++k)
        cache.execute(plan_key(), {x.data(), w.data(), y.data()},
                      support::host_cuda{}.make_stream());
    });
  for (std::thread& t : threads) t.join();
  CHECK(host_state().executed.size() == 80);
}

TEST_CASE("plan_cache: all its descriptors are destroyed") {
  {
    cache_fixture d(
        {{.index = 7, .milliseconds = 2}, {.index = 8}, {.index = 9, .finalises = false}});
    d.run(plan_key());
    CHECK(host_state().descriptors > 0);
  }
  CHECK(host_state().descriptors == 0);
}
