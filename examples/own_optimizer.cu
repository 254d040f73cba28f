// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of your own, written with Thrust: Signum (Bernstein et al. 2018), which the library
// does not ship. With --laws it is tested on the CPU, by the text that runs on a GPU.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/zip_function.h>

#include <cordee/cordee.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/thrust.cuh>

using namespace cordee;

namespace own {

struct signum {
  static constexpr agreement needs = agreement::exact;
  static constexpr int slots = 1;  // m
  double beta = 0.9;

  // m <- beta m + (1 - beta) g,   w <- w - lr sign(m)
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const auto rate = static_cast<Real>(info.learning_rate), keep = static_cast<Real>(beta);
    const auto step = [=] CORDEE_HOST_DEVICE(Real w, Real m, Real g) {
      m = keep * m + (1 - keep) * g;
      return thrust::make_tuple(w - (m > 0 ? rate : m < 0 ? -rate : 0), m);
    };
    thrust::transform_if(thrust_policy(s), thrust_begin(v.weights, v.slots[0], v.grads),
                         thrust_end(v.weights, v.slots[0], v.grads),
                         thrust_begin(v.weights, v.slots[0]), thrust::make_zip_function(step),
                         unless_skipped(s));
  }
};

}  // namespace own

namespace {

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

void train() {
  const synthetic images{.extent = {1, 28, 28}, .classes = 10, .samples = 1024, .seed = 1};
  network<layers, fp32, gpu, engine_for<gpu, fp32>::type, extent{1, 28, 28}, 10> net;
  loader feed{images, self_comm{}, {.global_batch = 64}};
  trainer run{net, own::signum{}, cosine{.peak = 0.001, .epochs = 2}, solo{}};
  const auto done = run.fit(feed, 2, console{});
  std::printf("%lld steps\n", static_cast<long long>(done.steps));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "--laws") == 0) {
      const std::string violation = optimizer_laws(own::signum{});
      std::printf("%s\n", violation.empty() ? "signum obeys the laws" : violation.c_str());
      return violation.empty() ? 0 : 1;
    }
    train();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
