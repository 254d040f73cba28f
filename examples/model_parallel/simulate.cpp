// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// When does it pay to split a layer's filters instead of the batch? The exchanges of both, as they
// are made (split_layers.hpp), under a virtual clock:
//
//   divided batch    a ring's mean of all weights' gradients
//   split filters    all-gather of y forward, a ring's sum of dx backward
//
// Both compute as much: 6 multiplications and additions a weight and pixel. Nothing is hidden
// behind the computation. And what a pipeline of two stages loses at its ends.
#include <cstdio>
#include <vector>

#include <cordee/comm/simulated.hpp>
#include <cordee/cordee.hpp>

#include "../options.hpp"
#include "split_layers.hpp"

using namespace examples;

namespace {

struct machine_speed {
  double flops;  // a second, of one rank
  link_parameters link;
};

/// Seconds of one layer's step.
struct seconds {
  double compute, divided_batch, split_filters;
};

seconds of_step(const convolution_problem& p, int batch, int ranks, const machine_speed& machine) {
  const simulated::options o{.network = {.link = machine.link}};
  const auto pixels_in = static_cast<std::size_t>(batch) * p.in.size(),
             pixels_out = static_cast<std::size_t>(batch) * p.out().size();
  const double compute = 6.0 * batch * static_cast<double>(p.macs()) / ranks / machine.flops;
  const auto exchanged = [&](const auto& f) {
    return compute + simulated::launch(ranks, f, o).path.seconds;
  };
  const double divided = exchanged([&](simulated comm) {
    buffer<float, phantom> dw(comm.device(), p.weights());
    sum_over_ranks(comm, dw.span(), comm.device());
  });
  const double split = exchanged([&](simulated comm) {
    const phantom device = comm.device();
    buffer<float, phantom> y(device, pixels_out / static_cast<std::size_t>(ranks)),
        dx(device, pixels_in);
    const std::vector<span_on<float, phantom>> parts(static_cast<std::size_t>(ranks), y.span());
    all_gather(comm, y.span(), std::span(parts), device.make_stream());
    sum_over_ranks(comm, dx.span(), device);
  });
  return {compute, divided, split};
}

void print(const char* name, const convolution_problem& p, const std::vector<int>& batches,
           int ranks, const machine_speed& machine) {
  std::printf("\n%s: %zu weights, %d ranks\n%8s %12s %12s %12s   pays\n", name, p.weights(), ranks,
              "batch", "compute ms", "batch ms", "filters ms");
  for (const int batch : batches) {
    const seconds t = of_step(p, batch, ranks, machine);
    std::printf("%8d %12s %12s %12s   %s\n", batch, decimal::fixed(1e3 * t.compute, 3).c_str(),
                decimal::fixed(1e3 * t.divided_batch, 3).c_str(),
                decimal::fixed(1e3 * t.split_filters, 3).c_str(),
                t.split_filters < t.divided_batch ? "to split filters" : "to divide the batch");
  }
}

/// Two stages that take as long, and their micro-batches' activations: the share of a step in which
/// a rank is idle.
double idle_share(int micro_batches, double stage_seconds, std::size_t activations,
                  const machine_speed& machine) {
  const double forward = stage_seconds / 3 / micro_batches, backward = 2 * forward;
  const simulation s = simulated::launch(
      2,
      [&](simulated comm) {
        const phantom device = comm.device();
        buffer<float, phantom> x(device, activations / static_cast<std::size_t>(micro_batches));
        const int peer = 1 - comm.rank();
        for (int m = 0; m <= micro_batches; ++m) {
          const bool is_first = comm.rank() == 0, ahead = m<micro_batches, back = m> 0;
          if (is_first && ahead) comm.compute(forward);
          std::vector<send_op<phantom>> out;
          std::vector<recv_op<phantom>> in;
          if (is_first ? ahead : back) out.push_back({peer, bytes(x.span())});
          if (is_first ? back : ahead) in.push_back({peer, bytes(x.span())});
          comm.exchange<phantom>(out, in, device.make_stream());
          if (is_first && back) comm.compute(backward);
          if (!is_first && ahead) comm.compute(forward + backward);
        }
      },
      {.network = {.link = machine.link}});
  return 1 - stage_seconds / s.path.seconds;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(
        argc, argv,
        "model_parallel_simulated: when splitting filters pays, and what a pipeline loses");
    const int ranks = o.positive("ranks", 8, "ranks, of which filters must be a multiple");
    const machine_speed machine{1e12 * o.number("tflops", 10, "of a rank"),
                                {.latency = 1e-6 * o.number("latency", 5, "microseconds"),
                                 .bandwidth = 1e9 * o.number("bandwidth", 12.5, "GB a second")}};
    o.done();
    const std::vector<int> batches{32, 128, 512, 2048, 8192};
    print("AlexNet's fc6, 9216 to 4096", {{9216, 1, 1}, 4096, 1, 1, 0}, batches, ranks, machine);
    print("ResNet-50's 3x3 of 14x14, 256 to 256", {{256, 14, 14}, 256, 3, 1, 1}, batches, ranks,
          machine);
    std::printf("\npipeline of two stages of 50 ms, 25.7 M activations between them\n");
    for (const int m : {1, 2, 4, 8, 16, 32})
      std::printf(
          "%8d micro-batches   %s %% idle\n", m,
          decimal::fixed(100 * idle_share(m, 0.05, 32 * 256 * 56 * 56, machine), 1).c_str());
  });
}
