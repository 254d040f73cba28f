// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Measures a training step of this CPU, tensor by tensor, for cordee-plan: the least of several
// repetitions of forward, of backward until each gradient is ready, and of all else in a step.
//
//   plan_measure --network resnet50 --batch 8 --csv layers.csv
//   cordee-plan --network resnet50 --layers layers.csv --batch 512 --ranks 64
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/options.hpp"

namespace {

using namespace cordee;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

struct options {
  std::string network, csv;
  int images, repeats;
};

/// A network that measures the parts of its last step, without what the trainer does in `ready`.
template <class Net>
struct measured : Net {
  using typename Net::packed_parameters;
  double forward_seconds = 0;
  std::vector<double> backward_seconds = std::vector<double>(Net::tensors());

  void forward(const packed_parameters& packed, span_on<float, cpu> plane, const batch<cpu>& b,
               phase p, cpu::stream s) {
    const double begin = now();
    Net::forward(packed, plane, b, p, s);
    forward_seconds = now() - begin;
  }
  template <class Ready>
  void backward(const packed_parameters& packed, span_on<float, cpu> gradients, write_mode mode,
                Ready&& ready, cpu::stream s) {
    double begin = now();
    Net::backward(
        packed, gradients, mode,
        [&](std::size_t k) {
          backward_seconds[k] = now() - begin;
          ready(k);
          begin = now();
        },
        s);
  }
};

template <class Net>
void measure(const options& o) {
  const auto n = static_cast<std::size_t>(o.images);
  random_sequence random(1, purpose::synthetic, 0, 0);
  std::vector<std::uint8_t> pixels(n * Net::input.size());
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random.bits());
  std::vector<std::int32_t> labels(n);
  for (auto& label : labels) label = static_cast<std::int32_t>(random.below(Net::classes));
  const batch<cpu> images{
      {pixels.data(), pixels.size()}, {labels.data(), n}, o.images, o.images, 1, {}};

  const cpu::worker_limit one_thread(1);
  measured<Net> net;
  const std::string workers = concat(net.get_device().workers(), " thread");
  trainer run{net, lars{.momentum = 0.9}, [](double) { return 1e-4; }, solo{}};
  constexpr double never = std::numeric_limits<double>::infinity();
  double forward = never, optimizer = never;
  std::vector<double> backward(Net::tensors(), never);
  for (int k = 0; k <= o.repeats; ++k) {
    const double begin = now();
    run.step(std::array{images}, 0);
    double other = now() - begin - net.forward_seconds;
    for (const double seconds : net.backward_seconds) other -= seconds;
    if (k == 0) continue;  // memory is touched for the first time
    forward = std::min(forward, net.forward_seconds);
    optimizer = std::min(optimizer, std::max(0.0, other));
    for (std::size_t t = 0; t < backward.size(); ++t)
      backward[t] = std::min(backward[t], net.backward_seconds[t]);
  }

  std::ofstream out(o.csv);
  out.imbue(std::locale::classic());
  out << "# " << o.network << ", fp32, LARS, " << workers << " of a CPU, least of " << o.repeats
      << "\npart,tensor,images,seconds\nforward,," << n << ',' << forward << '\n';
  double total = forward + optimizer;
  for (std::size_t t = 0; t < backward.size(); ++t) {
    out << "backward," << Net::segments()[t].name << ',' << n << ',' << backward[t] << '\n';
    total += backward[t];
  }
  out << "optimizer,," << n << ',' << optimizer << '\n';
  if (!out.flush()) throw error(concat("--csv: ", o.csv, " cannot be written"));
  std::printf("%s: %d images in %s s by %s, %s images a second: %s\n", o.network.c_str(), o.images,
              decimal::fixed(total, 4).c_str(), workers.c_str(),
              decimal::fixed(o.images / total, 1).c_str(), o.csv.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options words(argc, argv, "plan_measure: a step's seconds on this CPU, by tensor");
    options o;
    o.network = words.string("network", "resnet20", "resnet20, resnet18, resnet50");
    o.csv = words.string("csv", "layers.csv", "the table, for cordee-plan --layers");
    o.images = words.positive("batch", 16, "images of a step");
    o.repeats = words.positive("repeats", 5, "steps, of which the least counts");
    words.done();
    if (o.network == "resnet20")
      measure<resnet<20, fp32, cpu>>(o);
    else if (o.network == "resnet18")
      measure<resnet<18, fp32, cpu>>(o);
    else if (o.network == "resnet50")
      measure<resnet<50, fp32, cpu>>(o);
    else
      throw error(concat("--network: \"", o.network, "\" is none of resnet20, resnet18, resnet50"));
  });
}
