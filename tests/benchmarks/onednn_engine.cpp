// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `onednn` passes the laws of engines, and starts no threads beside the stream's.
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/error.hpp>
#include <cordee/nn/resnet.hpp>

#include "benchmarks/onednn/engine.hpp"
#include "tests/nn/network_fixture.hpp"
#include "tests/support/engine_laws.hpp"
#include "tests/support/engine_shapes.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

ENGINE_LAWS(engine_of<onednn, float>);
ENGINE_SHAPES(onednn);

static_assert(!ConvolutionEngine<onednn, double>, "oneDNN has no convolution in fp64");

namespace {

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// All three directions, from and to NCHW.
std::vector<std::vector<double>> all_directions(harness<onednn, float> engine) {
  const auto n = size(engine.samples);
  const auto x = random_numbers(n * engine.p.in.size(), 1),
             w = random_numbers(engine.p.weights(), 2),
             dy = random_numbers(n * engine.p.out().size(), 3);
  return {engine.fprop(x, w), engine.dgrad(dy, w), engine.dgrad(dy, w, x), engine.wgrad(x, dy)};
}

}  // namespace

TEST_CASE("onednn: a block is a SIMD register, few channels are plain NCHW") {
  for (int channels = 1; channels <= 40; ++channels) {
    CHECK(onednn::block<float>(channels) == (channels <= 4 ? 1 : onednn::block<float>(16)));
    CHECK(onednn_with<8>::block<float>(channels) == (channels <= 4 ? 1 : 8));
  }
}

TEST_CASE("onednn: starts no threads, and restores the number of OpenMP threads") {
  const int initial = omp_get_max_threads();
  omp_set_num_threads(5);
  const cpu device(3);
  const auto s = device.make_stream();
  detail::device::parallel_chunks(s, 3, 1,
                                  [](std::size_t, std::size_t) {});  // starts the stream's threads
  const auto before = threads_of_this_process();
  for (const int samples : {1, 40}) all_directions({{{16, 28, 28}, 32, 3, 1, 1}, samples, s});
  CHECK(threads_of_this_process() == before);
  CHECK(omp_get_max_threads() == 5);  // unchanged for other users of OpenMP on this thread
  omp_set_num_threads(initial);
}

TEST_CASE("onednn: several threads may use a new problem at once") {
  const convolution_problem p{{24, 6, 5}, 40, 3, 2, 1};  // of no other test
  constexpr int ranks = 4;
  std::vector<std::vector<std::vector<double>>> results(ranks);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = all_directions({p, 5}); });
  }
  for (const auto& result : results) CHECK(result == results[0]);
  CHECK(all_directions({p, 5}) == results[0]);
}

TEST_CASE("onednn: results do not depend on earlier contents of scratch") {
  // Scratch is thread-local and keeps its contents.
  for (const convolution_problem& p : {convolution_problem{{5, 9, 9}, 17, 3, 1, 1},
                                       {{3, 9, 8}, 4, 3, 2, 1},
                                       {{16, 8, 8}, 16, 1, 2, 0}}) {
    CAPTURE(describe(p));
    std::vector<std::vector<double>> fresh, used;
    std::thread([&] { fresh = all_directions({p, 2}); }).join();
    std::thread([&] {
      const convolution_problem q{{32, 16, 16}, 33, 5, 1, 2};
      const std::vector<double> bad(q.in.size(), std::numeric_limits<double>::infinity());
      harness<onednn, float>{q, 1}.dgrad(std::vector<double>(q.out().size(), bad[0]),
                                         random_numbers(q.weights(), 2), bad);
      used = all_directions({p, 2});
    }).join();
    CHECK(fresh == used);
  }
}

TEST_CASE("onednn: errors of oneDNN name the problem") {
  const convolution_problem p{{16, 2, 3}, 8, 5, 1, 0};  // a window larger than the image
  CHECK_THROWS_WITH_AS(onednn::packed_size<float>(p),
                       doctest::Contains("16x2x3 -> 8, window 5, stride 1, padding 0"), error);
  CHECK_THROWS_WITH_AS(onednn::workspace<float>(p, 2, {}), doctest::Contains("onednn: "), error);
}

TEST_CASE("onednn: a step of ResNet-8 equals that of engine direct") {
  // Few ReLUs: among millions, rounding would move some input across zero.
  const auto same = [](auto quick, auto slow) { check_same_step(quick, slow, 2e-5); };
  {
    constexpr resnet_options s{.image = {3, 9, 8}, .shortcut = shortcut::b};
    same(network_fixture<resnet<8, fp32, cpu, s, onednn>>(5, 1, 2),
         network_fixture<resnet<8, fp32, cpu, s>>(5));
  }
  constexpr resnet_options s{.image = {1, 8, 8}};
  same(network_fixture<resnet<8, fp32, cpu, s, onednn>>(33, 1, 2),
       network_fixture<resnet<8, fp32, cpu, s>>(33));
}
