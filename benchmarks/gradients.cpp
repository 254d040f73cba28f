// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a residual network's first step in bf16 by the CPU's default engine, compared
// with the same step in fp64: |g - g'| / |g'| over all parameters, a line a seed. With --write it
// also writes weights, samples and the exact gradient, with which benchmarks/torch_gradients.py
// measures PyTorch's error on the same numbers.
#include <cstdio>
#include <fstream>
#include <string>

#include <cordee/cordee.hpp>

#include "benchmarks/first_step.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

struct plan {
  int net, samples, seeds, first;
  std::string folder;
};

template <class T>
void write(const std::string& path, const std::vector<T>& numbers) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(numbers.size() * sizeof(T)));
  if (!file) throw error(concat("gradients: ", path, " cannot be written"));
}

/// The parameters in the order of the layers, without statistics.
template <class Net>
bench::doubles in_order(const bench::doubles& plane) {
  bench::doubles numbers;
  for (const segment& s : Net::segments().first(Net::tensors())) {
    const auto from = plane.begin() + static_cast<std::ptrdiff_t>(s.offset);
    numbers.insert(numbers.end(), from, from + static_cast<std::ptrdiff_t>(s.size));
  }
  return numbers;
}

template <int Depth>
void measure(const plan& p) {
  if (p.net != Depth) return;
  using net = resnet<Depth, bf16, cpu>;
  using exact_net = resnet<Depth, fp64, cpu, resnet_options{}, direct>;
  for (int seed = p.first; seed < p.first + p.seeds; ++seed) {
    const auto step = bench::first_step::draw<net, bf16>(p.samples, seed);
    const auto exact = bench::step_of<exact_net>(cpu{}, step);
    const bench::doubles right = in_order<net>(exact.gradient),
                         found = in_order<net>(bench::step_of<net>(cpu{}, step).gradient);
    std::printf("seed %d engine %s error %.6f\n", seed, std::string(net::engine::name).c_str(),
                bench::relative_error(found, right));
    std::fflush(stdout);
    if (p.folder.empty()) continue;
    const auto path = [&](const char* name) { return concat(p.folder, "/", name, seed); };
    write(path("weights"), in_order<net>(step.plane));
    write(path("gradient"), right);
    write(path("pixels"), step.pixels);
    write(path("labels"), step.labels);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "gradients: the error of a first step's gradient in bf16");
    plan p;
    p.net = o.whole("net", 20, "the ResNet: 20 or 50");
    p.samples = o.positive("batch", 8, "samples");
    p.seeds = o.positive("seeds", 5, "seeds");
    p.first = o.whole("first", 0, "the first seed");
    p.folder = o.string("write", "", "a folder for what torch_gradients.py reads");
    o.done();
    expects(p.net == 20 || p.net == 50, "gradients: --net is 20 or 50");
    measure<20>(p);
    measure<50>(p);
  });
}
