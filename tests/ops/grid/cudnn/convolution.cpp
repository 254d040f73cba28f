// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// With the cuDNN of tests/support/cudnn_on_host.hpp in the library's place: what the engine told
// cuDNN to compute, and where, is what is checked.
#include "tests/ops/grid/cudnn/convolution.hpp"

#include <future>

#include "tests/support/cudnn_on_host.hpp"

using namespace support;

static_assert(cudnn::name == "cudnn" &&
              cudnn_with<cudnn_settings{.tf32 = true}>::name == "cudnn, TF32" &&
              cudnn_with<cudnn_settings{.deterministic = true}>::name == "cudnn, deterministic" &&
              cudnn_with<cudnn_settings{.deterministic = true, .tf32 = true}>::name ==
                  "cudnn, deterministic, TF32");

static_assert(ConvolutionEngine<cudnn, half, float, host_cuda::stream> &&
              ConvolutionEngine<cudnn, bfloat, double, host_cuda::stream> &&
              ConvolutionEngine<cudnn, float, float, host_cuda::stream> &&
              !ConvolutionEngine<cudnn, double, double, host_cuda::stream>);

namespace {

/// In a thread of its own, which begins with no plans.
template <class F>
void fresh(std::vector<host_engine> engines, const F& f) {
  on_host() = {};
  on_host().engines = std::move(engines);
  std::async(std::launch::async, f).get();
}
template <Number N>
bool exactly(const std::vector<double>& found, const measured& right) {
  return found == as<N>(right.value);
}

}  // namespace

TEST_CASE_TEMPLATE("cudnn: every pass of every shape is the definition, rounded once", N, float,
                   half, bfloat) {
  fresh({{}}, [] {
    for (const convolution_problem& p : dnn_shapes)
      for (const int samples : {0, 1, 3})
        cudnn_is_the_definition<cudnn, N>(bench_on{host_cuda{}}, p, samples, exactly<N>);
  });
}

TEST_CASE_TEMPLATE("cudnn: trials of several engines leave the same results", N, float, half,
                   bfloat) {
  fresh({{.index = 1, .milliseconds = 2, .workspace = 100}, {.index = 2}}, [] {
    for (int times = 0; times < 2; ++times)
      cudnn_is_the_definition<cudnn, N>(bench_on{host_cuda{}}, {{5, 6, 7}, 9, 3, 2, 1}, 2,
                                        exactly<N>);
  });
  CHECK(std::ranges::count(on_host().executed, 1) > 4);
  CHECK(on_host().executed.back() == 2);
}

TEST_CASE("cudnn: of no samples nothing is asked") {
  fresh({{}}, [] {
    cudnn_is_the_definition<cudnn, half>(bench_on{host_cuda{}}, {{5, 6, 7}, 9, 3, 2, 1}, 0,
                                         exactly<half>);
  });
  CHECK(on_host().executed.empty());
}

TEST_CASE("cudnn: the settings are the type's") {
  const auto chosen = [](auto engine) {
    fresh({{.index = 1, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
           {.index = 2, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
           {.index = 3}},
          [] {
            cudnn_is_the_definition<decltype(engine), float>(
                bench_on{host_cuda{}}, {{4, 5, 3}, 4, 3, 1, 1}, 1, exactly<float>);
          });
    return on_host().executed;
  };
  // fprop, dgrad over and onto, wgrad twice
  CHECK(chosen(cudnn_with<cudnn_settings{.deterministic = true}>{}) == std::vector<int>(5, 3));
  CHECK(chosen(cudnn_with<cudnn_settings{.deterministic = true, .tf32 = true}>{}) ==
        std::vector<int>(5, 2));
}
