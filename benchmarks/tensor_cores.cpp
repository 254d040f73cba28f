// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of engine `tensor_core` compared with another engine's: every distinct one of
// ResNet-50, in fp16 and in three directions, and at the end the median of all ratios, a line of
// JSON each.
//
//   ratio = the other engine's time / tensor_core's,  above 1 where tensor_core is faster
//
// Times are minima over repetitions, the engines in turn. The same work runs once before it is
// timed, so that the device is busy while the host launches the timed work. On a GPU the other
// engine is cuDNN; without one, `reference` on a small network and an emulated GPU checks the
// program.
//
// Then the classifier's three products, as a convolution of images of one pixel and on CUDA cores,
// by fp32's kernel (ops/gpu/linear.hpp).
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/ops/gpu/linear.hpp>

#if !defined(__CUDACC__)
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/elementwise.hpp>

#include "tests/support/emulated.hpp"
#endif

#include "benchmarks/each_layer.hpp"
#include "benchmarks/stopwatch.hpp"
#include "examples/options.hpp"
#include "tests/support/device_vectors.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

using number = fp16::storage;
#if defined(__CUDACC__)
using D = gpu;
using other = cudnn;
using net = resnet<50, fp64, cpu, resnet_options{}, reference>;  // only its list of layers is used
constexpr convolution_problem classifier{{2048, 1, 1}, 1000};
#else
using D = support::emulated;
using other = reference;
using net = resnet<8, fp64, cpu, resnet_options{.image = {3, 8, 8}}, reference>;
constexpr convolution_problem classifier{{64, 1, 1}, 16};
#endif
using stream = D::stream;

constexpr double bar = 0.5;
constexpr std::array<const char*, 3> directions{"fprop", "dgrad", "wgrad"};

/// The products of a fully connected layer without a bias, of features and outputs without padding,
/// on CUDA cores.
struct cuda_cores : tensor_core {
  static constexpr std::string_view name = "cuda_cores";

  template <class N>
  static void fprop(const convolution_problem& p, int samples, const N* x, const N* w, N* y,
                    stream s) {
    const sizes of(p, samples);
    launch_matmul<N>({x, of.n, of.c, of.c, 1}, {w, of.c, of.k, 1, of.c}, of.n, of.k,
                     store_input_gradient_op<N>{y, of.k}, s);
  }
  template <class N>
  static void dgrad(const convolution_problem& p, int samples, const N* dy, const N* w, N* dx,
                    write_mode, stream s) {
    const sizes of(p, samples);
    launch_matmul<N>({dy, of.n, of.k, of.k, 1}, {w, of.k, of.c, of.c, 1}, of.n, of.c,
                     store_input_gradient_op<N>{dx, of.c}, s);
  }
  template <class N>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, float* dw,
                    write_mode mode, N*, stream s) {
    const sizes of(p, samples);
    launch_matmul<N>({dy, of.k, of.n, 1, of.k}, {x, of.n, of.c, of.c, 1}, of.k, of.c,
                     store_weight_gradient_op<N, float>{dw, nullptr, of.c, mode}, s);
  }

 private:
  struct sizes {
    std::size_t n, c, k;
    sizes(const convolution_problem& p, int samples)
        : n(static_cast<std::size_t>(samples)),
          c(static_cast<std::size_t>(p.in.channels)),
          k(static_cast<std::size_t>(p.filters)) {}
  };
};

/// A layer with its buffers for an engine, and the minimal time of each direction.
template <class Engine>
class engine_layer {
  static constexpr int padded_channels(int channels) {
    return Engine::template block<number>(channels);
  }

 public:
  engine_layer(const D& device, stream s, const convolution_problem& p, int samples)
      : device_(device),
        s_(s),
        p_(p),
        samples_(samples),
        x_(device, numbers(p.in)),
        y_(device, numbers(p.out())),
        out_(device, std::max(x_.size(), y_.size())),
        packed_(device, Engine::template packed_size<number>(p)),
        workspace_(device, Engine::template workspace<number>(p, samples, s)),
        dw_(device, s, support::to_storage<float>(normal_numbers(p.weights(), 3))) {
    draw(x_, p.in, 1);
    draw(y_, p.out(), 2);
    Engine::template pack<number>(p, dw_.data(), packed_.span().data, s);
  }
  void time(bench::stopwatch& timer, std::size_t direction, bool record) {
    run(direction);
    const double seconds = timer(s_, [&] { run(direction); });
    if (record) least[direction] = std::min(least[direction], seconds);
  }

  std::array<double, directions.size()> least{1e9, 1e9, 1e9};

 private:
  [[nodiscard]] std::size_t numbers(const extent& e) const {
    return static_cast<std::size_t>(samples_) * sample_size(e, padded_channels(e.channels));
  }
  /// The same random sample for all of them: zeros may be multiplied faster.
  void draw(buffer<number, D>& to, const extent& e, std::uint64_t seed) {
    const auto sample = support::to_storage<number>(
        support::to_blocked(normal_numbers(e.size(), seed), e, padded_channels(e.channels)));
    for (std::size_t i = 0; i < to.size(); i += sample.size())
      device_.copy(to.span().data + i, sample.data(), sample.size() * sizeof(number), s_);
    device_.finish(s_);
  }
  void run(std::size_t direction) {
    const number *const x = x_.span().data, *const y = y_.span().data;
    if (direction == 0)
      Engine::template fprop<number>(p_, samples_, x, packed_.span().data, out_.span().data, s_);
    else if (direction == 1)
      Engine::template dgrad<number>(p_, samples_, y, packed_.span().data, out_.span().data,
                                     write_mode::overwrite, s_);
    else
      Engine::template wgrad<number>(p_, samples_, x, y, dw_.data(), write_mode::overwrite,
                                     workspace_.span().data, s_);
  }

  D device_;
  stream s_;
  convolution_problem p_;
  int samples_;
  buffer<number, D> x_, y_, out_, packed_, workspace_;
  support::device_vector<float, D> dw_;
};

/// Prints a layer's lines, and appends their ratios. The gradient of the network's input is not
/// needed.
void compare(const std::string& name, const convolution_problem& p, int samples, int reps,
             std::vector<double>& ratios) {
  const D device;
  const stream s = device.make_stream();
  engine_layer<tensor_core> tensor_core_layer(device, s, p, samples);
  engine_layer<other> other_layer(device, s, p, samples);
  bench::stopwatch timer;
  const auto is_needed = [&](std::size_t direction) {
    return direction != 1 || p.in != net::input;
  };
  for (int k = -2; k < reps; ++k)  // two warm-up repetitions
    for (std::size_t d = 0; d < directions.size(); ++d)
      if (is_needed(d)) {
        tensor_core_layer.time(timer, d, k >= 0);
        other_layer.time(timer, d, k >= 0);
      }
  for (std::size_t d = 0; d < directions.size(); ++d) {
    if (!is_needed(d)) continue;
    ratios.push_back(other_layer.least[d] / tensor_core_layer.least[d]);
    std::printf(
        "{\"layer\": \"%s\", \"direction\": \"%s\", \"precision\": \"fp16\", \"batch\": %d, "
        "\"tensor_core\": %.4f, "
        "\"%s\": %.4f, \"teraflops\": %.1f, \"ratio\": %.3f}\n",
        name.c_str(), directions[d], samples, 1e3 * tensor_core_layer.least[d],
        std::string(other::name).c_str(), 1e3 * other_layer.least[d],
        2e-12 * static_cast<double>(p.macs()) * samples / tensor_core_layer.least[d],
        ratios.back());
    std::fflush(stdout);
  }
}

double median_of(std::vector<double> ratios) {
  const auto half = ratios.size() / 2;
  std::sort(ratios.begin(), ratios.end());
  return ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2;
}

void compare_classifier(int samples, int reps) {
  const D device;
  const stream s = device.make_stream();
  bench::stopwatch timer;
  engine_layer<cuda_cores> before(device, s, classifier, samples);
  engine_layer<tensor_core> own(device, s, classifier, samples);
  engine_layer<other> others(device, s, classifier, samples);
  for (int k = -2; k < reps; ++k)
    for (std::size_t d = 0; d < directions.size(); ++d) {
      before.time(timer, d, k >= 0);
      own.time(timer, d, k >= 0);
      others.time(timer, d, k >= 0);
    }
  for (std::size_t d = 0; d < directions.size(); ++d)
    std::printf(
        "{\"classifier\": \"%d -> %d\", \"batch\": %d, \"direction\": \"%s\", \"cuda_cores\": "
        "%.4f, "
        "\"tensor_core\": %.4f, \"%s\": %.4f}\n",
        classifier.in.channels, classifier.filters, samples, directions[d], 1e3 * before.least[d],
        1e3 * own.least[d], std::string(other::name).c_str(), 1e3 * others.least[d]);
  std::fflush(stdout);
}

void measure(int samples, int reps) {
  std::vector<double> ratios;
  bench::each_layer<net>([&]<class L, extent In>(const std::string& name) {
    if constexpr (bench::is_convolution<L>) compare(name, L::problem(In), samples, reps, ratios);
  });
  const double median = median_of(ratios);
  std::printf("{\"median of\": %zu, \"ratio\": %.3f, \"bar\": %g, \"within\": %s}\n", ratios.size(),
              median, bar, median >= bar ? "true" : "false");
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "tensor_cores: convolutions of tensor_core compared with another engine's");
    const int samples = o.whole("batch", 1, "samples; for a GPU 256");
    const int reps = o.whole("reps", 20, "repetitions, the engines in turn");
    o.done();
    expects(samples > 0 && reps > 0, "tensor_cores: nothing to measure");
    measure(samples, reps);
    compare_classifier(samples, reps);
  });
}
