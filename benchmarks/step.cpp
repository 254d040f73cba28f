// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where a training step's time goes: the kernels alone against the whole trainer, and how much of
// the exchange hides behind backward when the link moves 1 GB/s. Ratios of minima over interleaved
// repetitions of one run.
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/options.hpp"
#include "tests/support/slowed.hpp"

using namespace cordee;

namespace {

using clock_type = std::chrono::steady_clock;
using net_type = resnet<20, fp32, cpu, shape{.image = {3, 32, 32}}>;

template <class F>
double timed(const F& f) {
  const auto start = clock_type::now();
  f();
  return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}

struct samples {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  explicit samples(int n)
      : pixels(static_cast<std::size_t>(n) * net_type::input.size()),
        labels(static_cast<std::size_t>(n)) {
    random_sequence random(1, purpose::test, 0, 0);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
    for (auto& l : labels) l = static_cast<std::int32_t>(random.below(10));
  }
  [[nodiscard]] batch<cpu> of(int ranks) const {
    const auto n = static_cast<std::int64_t>(labels.size());
    return {{pixels.data(), pixels.size()},
            {labels.data(), labels.size()},
            static_cast<int>(n),
            n * ranks,
            ranks,
            {}};
  }
};

constexpr auto still = [](double) { return 1e-4; };

// A network that knows how long its own kernels ran; what the trainer does in `ready` does not
// count.
struct metered : net_type {
  double milliseconds = 0;

  void forward(const image& in, span_on<float, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    milliseconds += timed([&] { net_type::forward(in, plane, b, p, s); });
  }
  template <class Ready>
  void backward(const image& in, span_on<float, cpu> gradients, into mode, Ready&& ready,
                cpu::stream s) {
    double trainers = 0;
    const auto noted = [&](std::size_t k) { trainers += timed([&] { ready(k); }); };
    milliseconds += timed([&] { net_type::backward(in, gradients, mode, noted, s); });
    milliseconds -= trainers;
  }
};

// One rank: the network's forward and backward within the trainer's whole step.
void overhead(int n, int reps) {
  const samples data(n);
  metered net;
  trainer run{net, lars{}, still, solo{}};
  double kernels = std::numeric_limits<double>::max(), whole = kernels, rest = kernels;
  for (int k = 0; k < reps; ++k) {
    net.milliseconds = 0;
    const double step = timed([&] { run.step(std::array{data.of(1)}, 0); });
    kernels = std::min(kernels, net.milliseconds);
    whole = std::min(whole, step);
    rest = std::min(rest, step - net.milliseconds);
  }
  std::printf(
      "one rank, batch %d: step with lars %.2f ms, forward and backward %.2f ms, the rest %.3f ms: "
      "%.2f %%\n",
      n, whole, kernels, rest, 100 * (whole / kernels - 1));
}

// Two ranks, one thread each, over a link of 1 GB/s: nothing exchanged, late, while backward runs.
void hidden(int n, int reps, std::size_t bucket_bytes) {
  const samples data(n);
  std::vector<double> none(2, 1e9), late(2, 1e9), early(2, 1e9), wire(2, 1e9);
  threads::launch(2, [&](threads link) {
    const auto r = static_cast<std::size_t>(link.rank());
    const support::slowed slow{link, 1e9, std::chrono::microseconds(50)};
    net_type a, b, c;
    trainer quiet{a, sgd{}, still, solo{}, {.bucket_bytes = bucket_bytes}};
    trainer after{b, sgd{}, still, ring{slow}, {.bucket_bytes = bucket_bytes, .overlap = false}};
    trainer during{c, sgd{}, still, ring{slow}, {.bucket_bytes = bucket_bytes}};
    std::vector<std::byte> scratch(ring{slow}.scratch<float>(after.grads().size));
    const auto together = [&] {
      std::array x{0.0};
      agree(link, x, sum{});
    };
    for (int k = 0; k < reps; ++k) {
      together();
      none[r] = std::min(none[r], timed([&] {
                           quiet.step(std::array{data.of(1)}, 0);
                           together();
                         }));
      together();
      late[r] = std::min(late[r], timed([&] { after.step(std::array{data.of(2)}, 0); }));
      together();
      early[r] = std::min(early[r], timed([&] { during.step(std::array{data.of(2)}, 0); }));
      together();
      wire[r] = std::min(wire[r], timed([&] {
                           for (const bucket& one : after.buckets())
                             ring{slow}.mix(
                                 message<float, cpu, 0>{&one,
                                                        after.grads().subspan(one.offset, one.size),
                                                        {},
                                                        {scratch.data(), scratch.size()}},
                                 moment{}, cpu::stream{});
                         }));
    }
    if (link.rank() == 0)
      std::printf(
          "two ranks at 1 GB/s, batch %d each, %zu buckets: no exchange %.2f ms, exchange by "
          "itself "
          "%.2f ms, late %.2f ms, while backward runs %.2f ms: %.0f %% of the exchange hidden\n",
          n, after.buckets().size(), none[0], wire[0], late[0], early[0],
          100 * (late[0] - early[0]) / wire[0]);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "step: trainer overhead, and exchange hidden behind backward");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int n = o.whole("batch", 64, "samples on each rank");
    const int small = o.whole("small", 4, "samples on each rank where the exchange is to show");
    o.done();
    std::printf("%s\n", describe_isa().c_str());
    overhead(n, reps);
    for (const std::size_t bytes : {1u << 21, 1u << 18, 1u << 17}) hidden(small, reps, bytes);
  });
}
