// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Against the cuDNN of tests/support/cudnn_on_host.hpp, whose engines take the time they are told.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/desk.hpp>

#include "tests/support/cudnn_on_host.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using detail::convolution_pass;
using detail::cudnn_desk;
using detail::cudnn_question;
using support::complaint;
using support::host_engine;
using support::on_host;

namespace {

constexpr convolution_problem layer{{4, 5, 3}, 4, 3, 1, 1};

/// A fresh desk in front of a cuDNN that has these engines.
struct desk {
  explicit desk(std::vector<host_engine> engines, std::vector<host_engine> fallbacks = {}) {
    on_host() = {};
    on_host().engines = std::move(engines);
    on_host().fallbacks = std::move(fallbacks);
    on_host().handles = 1;
  }
  void run(const cudnn_question& q) {
    std::vector<float> x(static_cast<std::size_t>(q.samples) * 60), w(144), y(x.size());
    at.run(q, {x.data(), w.data(), y.data()}, stream);
  }
  std::vector<int> executed(const cudnn_question& q) {
    on_host().executed.clear();
    run(q);
    return on_host().executed;
  }

  support::host_cuda::stream stream = support::host_cuda{}.open();
  cudnn_desk at;
};
cudnn_question question(int samples = 2, convolution_pass pass = {}) {
  return {layer, samples, pass, CUDNN_DATA_FLOAT, false, {}};
}
}  // namespace

TEST_CASE("desk: the quickest engine is found once, and then does all the work") {
  desk d({{.index = 7, .milliseconds = 3}, {.index = 8, .milliseconds = 1}},
         {{.index = 9, .milliseconds = 2}});
  const std::vector<int> first = d.executed(question());
  CHECK(std::ranges::count(first, 7) > 1);
  CHECK(std::ranges::count(first, 9) > 1);
  CHECK(first.back() == 8);
  const int asked = on_host().heuristics;
  CHECK(d.executed(question()) == std::vector<int>{8});
  CHECK(on_host().heuristics == asked);
}

TEST_CASE("desk: only so many engines are tried") {
  std::vector<host_engine> engines;
  for (int i = 0; i < 40; ++i)
    engines.push_back({.index = i, .milliseconds = static_cast<float>(40 - i)});
  CHECK(desk(engines).executed(question()).back() == 7);
}

TEST_CASE("desk: an engine that this device does not bear, or that fails, is passed over") {
  desk d({{.index = 7, .milliseconds = 1, .finalises = false},
          {.index = 8, .milliseconds = 1, .executes = false},
          {.index = 9, .milliseconds = 5},
          {.index = 10, .milliseconds = 4}});
  CHECK(d.executed(question()).back() == 10);
}

TEST_CASE("desk: deterministic is the heuristics' first that is, without a trial") {
  desk d({{.index = 7, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
          {.index = 8, .milliseconds = 9, .notes = {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}},
          {.index = 9}});
  cudnn_question q = question();
  q.how.deterministic = true;
  CHECK(d.executed(q) == std::vector<int>{8});
  CHECK(d.executed(question()).back() == 7);  // another question, of another settings
}

TEST_CASE("desk: whatever differs is another question") {
  desk d({{.index = 7, .milliseconds = 2}, {.index = 8}});
  d.run(question());
  const int once = on_host().heuristics;
  std::vector<cudnn_question> others{question(3), question(2, convolution_pass::dgrad),
                                     question(2, convolution_pass::wgrad)};
  others.push_back(others[1]);
  others.back().adds = true;
  others.push_back(question());
  others.back().how.tf32 = true;
  for (const cudnn_question& q : others) d.run(q);
  CHECK(on_host().heuristics == once * 6);
  for (const cudnn_question& q : others) CHECK(d.executed(q) == std::vector<int>{8});
}

TEST_CASE("desk: an engine has the workspace that it asked for") {
  // The cuDNN of the host fills it, which the sanitizers see.
  desk d({{.index = 7, .workspace = 1000}, {.index = 8, .milliseconds = 2}});
  CHECK(d.executed(question()).back() == 7);
}

TEST_CASE("desk: an engine whose workspace does not fit is passed over, and the next kernel runs") {
  desk d({{.index = 7, .workspace = 1000}, {.index = 8, .milliseconds = 2}});
  on_host().memory = 999;
  CHECK(d.executed(question()) == std::vector<int>{8, 8, 8, 8, 8});
  float x = 1;
  for_each(d.stream, 1, [&x](std::size_t) { x = 2; });
  CHECK(x == 2);
}

TEST_CASE("desk: where no engine is, and where the only one fails, the error names the layer") {
  const std::string none = complaint([] { desk({}).run(question()); });
  CAPTURE(none);
  CHECK(none.find("no engine of this version") != std::string::npos);
  CHECK(none.find("(fprop of 4x5x3 -> 4x5x3, window 3") != std::string::npos);
  const host_engine broken{.executes = false};
  const std::string failed =
      complaint([&] { desk(std::vector{broken}).run(question(2, convolution_pass::wgrad)); });
  CAPTURE(failed);
  CHECK(failed.find("cudnnBackendExecute") != std::string::npos);
  CHECK(failed.find("this engine fails") != std::string::npos);
  CHECK(failed.find("(wgrad of") != std::string::npos);
  const std::string both = complaint([&] { desk(std::vector{broken, broken}).run(question()); });
  CHECK(both.find("this engine fails") != std::string::npos);
}

TEST_CASE("desk: every thread and device has its own, which ends with the thread") {
  on_host() = {};
  const auto visit = [] {
    cudnn_desk& one = cudnn_desk::here();
    CHECK(&cudnn_desk::here() == &one);
    CHECK(on_host().handles == 1);
    on_host().device = 1;
    CHECK(&cudnn_desk::here() != &one);
    CHECK(on_host().handles == 2);
    on_host().device = 0;
    CHECK(&cudnn_desk::here() == &one);
  };
  std::thread(visit).join();
  CHECK(on_host().handles == 0);
}

TEST_CASE("desk: nothing is left of its descriptors") {
  {
    desk d({{.index = 7, .milliseconds = 2}, {.index = 8}, {.index = 9, .finalises = false}});
    d.run(question());
    CHECK(on_host().descriptors > 0);
  }
  CHECK(on_host().descriptors == 0);
}
