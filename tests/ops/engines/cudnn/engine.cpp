// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// With the double of cuDNN of tests/support/cudnn_on_host.hpp: checks what the engine makes cuDNN
// compute.
#include "tests/ops/engines/cudnn/engine.hpp"

#include <algorithm>
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

/// Calls f in a new thread, whose plan cache is empty.
template <class F>
void fresh(std::vector<host_engine> engines, const F& f) {
  host_state() = {};
  host_state().engines = std::move(engines);
  std::async(std::launch::async, f).get();
}
template <Number N>
bool exactly(const std::vector<double>& found, const measured& right) {
  return found == as<N>(right.value);
}

}  // namespace

TEST_CASE_TEMPLATE("cudnn: every pass of every shape equals the definition, rounded once", N, float,
                   half, bfloat) {
  fresh({{}}, [] {
    for (const convolution_problem& p : dnn_shapes)
      for (const int samples : {0, 1, 3})
        cudnn_is_the_definition<cudnn, N>(device_fixture{host_cuda{}}, p, samples, exactly<N>);
  });
}

TEST_CASE_TEMPLATE("cudnn: results are the same after timing several engines", N, float, half,
                   bfloat) {
  fresh({{.index = 1, .milliseconds = 2, .workspace = 100}, {.index = 2}}, [] {
    for (int times = 0; times < 2; ++times)
      cudnn_is_the_definition<cudnn, N>(device_fixture{host_cuda{}}, {{5, 6, 7}, 9, 3, 2, 1}, 2,
                                        exactly<N>);
  });
  CHECK(std::ranges::count(host_state().executed, 1) > 4);
  CHECK(host_state().executed.back() == 2);
}

TEST_CASE("cudnn: zero samples execute nothing") {
  fresh({{}}, [] {
    cudnn_is_the_definition<cudnn, half>(device_fixture{host_cuda{}}, {{5, 6, 7}, 9, 3, 2, 1}, 0,
                                         exactly<half>);
  });
  CHECK(host_state().executed.empty());
}

TEST_CASE("cudnn: the packed weight gradient of zero samples is zero") {
  const convolution_problem p{{5, 6, 7}, 9, 3, 2, 1};
  std::vector<half> dw(cudnn::packed_size<half>(p), half::nearest(9));
  const half* const none = nullptr;
  fresh({{}},
        [&] { cudnn::wgrad_packed<half>(p, 0, none, none, dw.data(), host_cuda{}.make_stream()); });
  for (const half x : dw) CHECK(detail::precision::widened(x) == 0);
}

TEST_CASE("cudnn: the engine type's settings select the plans") {
  const auto selected = [](auto engine) {
    fresh({{.index = 1, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
           {.index = 2, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
           {.index = 3}},
          [] {
            cudnn_is_the_definition<decltype(engine), float>(
                device_fixture{host_cuda{}}, {{4, 5, 3}, 4, 3, 1, 1}, 1, exactly<float>);
          });
    return host_state().executed;
  };
  // fprop, dgrad (overwrite, add), wgrad twice
  CHECK(selected(cudnn_with<cudnn_settings{.deterministic = true}>{}) == std::vector<int>(5, 3));
  CHECK(selected(cudnn_with<cudnn_settings{.deterministic = true, .tf32 = true}>{}) ==
        std::vector<int>(5, 2));
}
