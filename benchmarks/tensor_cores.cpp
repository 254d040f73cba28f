// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of engine `wmma` beside another engine's: every distinct one of ResNet-50, in
// fp16 and in three directions, and at the end the median of all ratios, a line of JSON each.
//
//   ratio = the other's time / wmma's,  above 1 where wmma is the quicker one
//
// Times are minima over repetitions, the engines in turn; before each runs the same once more, so
// that the device is busy while the host hands over what is timed. The other engine is cuDNN, where
// it was compiled for a GPU; on a host `reference`, on a small network and a GPU that is emulated,
// checks the program.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#if !defined(__CUDACC__)
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/emulated.hpp"
#endif

#include "benchmarks/each_layer.hpp"
#include "benchmarks/stopwatch.hpp"
#include "examples/options.hpp"
#include "tests/support/on_grid.hpp"

using namespace cordee;

namespace {

using number = fp16::storage;
#if defined(__CUDACC__)
using device = gpu;
using other = cudnn;
using net = resnet<50, fp64, cpu, shape{}, reference>;  // of which only the layers are asked for
#else
using device = support::emulated;
using other = reference;
using net = resnet<8, fp64, cpu, shape{.image = {3, 8, 8}}, reference>;
#endif
using stream = device::stream;

constexpr double bar = 0.5;
constexpr std::array<const char*, 3> directions{"fprop", "dgrad", "wgrad"};

/// A layer's memory by an engine, and the shortest time seen of each direction.
template <class Engine>
class at_work {
  static constexpr int in_memory(int channels) { return Engine::template block<number>(channels); }

 public:
  at_work(const device& where, stream s, const convolution_problem& p, int samples)
      : where_(where),
        s_(s),
        p_(p),
        samples_(samples),
        x_(where, numbers(p.in)),
        y_(where, numbers(p.out())),
        out_(where, std::max(x_.size(), y_.size())),
        image_(where, Engine::template packed_size<number>(p)),
        workspace_(where, Engine::template workspace<number>(p, samples, s)),
        dw_(where, s, support::converted<float>(normal_numbers(p.weights(), 3))) {
    draw(x_, p.in, 1);
    draw(y_, p.out(), 2);
    Engine::template pack<number>(p, dw_.data(), image_.span().data, s);
  }
  void time(bench::stopwatch& watch, std::size_t direction, bool counts) {
    run(direction);
    const double seconds = watch(s_, [&] { run(direction); });
    if (counts) least[direction] = std::min(least[direction], seconds);
  }

  std::array<double, directions.size()> least{1e9, 1e9, 1e9};

 private:
  [[nodiscard]] std::size_t numbers(const extent& e) const {
    return static_cast<std::size_t>(samples_) * sample_size(e, in_memory(e.channels));
  }
  /// One sample's numbers, for all of them: what is zero may be multiplied more quickly.
  void draw(buffer<number, device>& to, const extent& e, std::uint64_t which) {
    const auto one = support::converted<number>(
        support::in_blocks(normal_numbers(e.size(), which), e, in_memory(e.channels)));
    for (std::size_t at = 0; at < to.size(); at += one.size())
      where_.copy(to.span().data + at, one.data(), one.size() * sizeof(number), s_);
    where_.finish(s_);
  }
  void run(std::size_t direction) {
    const number *const x = x_.span().data, *const y = y_.span().data;
    if (direction == 0)
      Engine::template fprop<number>(p_, samples_, x, image_.span().data, out_.span().data, s_);
    else if (direction == 1)
      Engine::template dgrad<number>(p_, samples_, y, image_.span().data, out_.span().data,
                                     into::overwrite, s_);
    else
      Engine::template wgrad<number>(p_, samples_, x, y, dw_.data(), into::overwrite,
                                     workspace_.span().data, s_);
  }

  device where_;
  stream s_;
  convolution_problem p_;
  int samples_;
  buffer<number, device> x_, y_, out_, image_, workspace_;
  support::remote<float, device> dw_;
};

/// Prints a layer's lines, and keeps their ratios. Nobody wants the gradient of the network's
/// input.
void compare(const std::string& name, const convolution_problem& p, int samples, int reps,
             std::vector<double>& ratios) {
  const device where;
  const stream s = where.open();
  at_work<wmma> ours(where, s, p, samples);
  at_work<other> others(where, s, p, samples);
  bench::stopwatch watch;
  const auto wanted = [&](std::size_t direction) { return direction != 1 || p.in != net::input; };
  for (int k = -2; k < reps; ++k)  // two turns warm up
    for (std::size_t d = 0; d < directions.size(); ++d)
      if (wanted(d)) {
        ours.time(watch, d, k >= 0);
        others.time(watch, d, k >= 0);
      }
  for (std::size_t d = 0; d < directions.size(); ++d) {
    if (!wanted(d)) continue;
    ratios.push_back(others.least[d] / ours.least[d]);
    std::printf(
        "{\"layer\": \"%s\", \"direction\": \"%s\", \"precision\": \"fp16\", \"batch\": %d, "
        "\"wmma\": %.4f, "
        "\"%s\": %.4f, \"teraflops\": %.1f, \"ratio\": %.3f}\n",
        name.c_str(), directions[d], samples, 1e3 * ours.least[d], std::string(other::name).c_str(),
        1e3 * others.least[d], 2e-12 * static_cast<double>(p.macs()) * samples / ours.least[d],
        ratios.back());
    std::fflush(stdout);
  }
}

void measure(int samples, int reps) {
  std::vector<double> ratios;
  bench::each_layer<net>([&]<class L, extent In>(const std::string& name) {
    if constexpr (bench::is_convolution<L>) compare(name, L::problem(In), samples, reps, ratios);
  });
  const auto half = ratios.size() / 2;
  std::sort(ratios.begin(), ratios.end());
  const double median =
      ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2;
  std::printf("{\"median of\": %zu, \"ratio\": %.3f, \"bar\": %g, \"within\": %s}\n", ratios.size(),
              median, bar, median >= bar ? "true" : "false");
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "tensor_cores: wmma's convolutions beside another engine's");
    const int samples = o.whole("batch", 1, "samples; a GPU wants 256");
    const int reps = o.whole("reps", 20, "repetitions, the engines in turn");
    o.done();
    expects(samples > 0 && reps > 0, "tensor_cores: nothing to measure");
    measure(samples, reps);
  });
}
