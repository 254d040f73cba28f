// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What moves memory and hardly computes, as a share of the device's copy bandwidth: rules' steps on
// ResNet-50's 25.6 million parameters in 161 segments, and batch norm with the ReLU behind it on
// layers of ResNet-50. A line of JSON each; minima over interleaved repetitions.
//
// Bytes are those that must move: whole passes, each number read or written once a pass. A
// statistic is complete before any number that depends on it is made, so batch norm goes through
// memory twice (before | after).
//
//   copy       read, write                  norms   w, g
//   sgd, lars  w, g, u, write w, u          lamb    g, m, v, w, write m, v, d | w, d, write w
//
//                forward                 backward
//   relu         x | x, write y          x, y, dy | x, y, dy, write dx
//   add_relu     x | x, r, write y       x, y, dy, write dy | x, dy, write dx
//
// The device is the one that the program was compiled for; the CPU's figures check the program.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/stopwatch.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

#if defined(__CUDACC__)
using device = gpu;
using number = fp16::storage;
#else
using device = cpu;
using number = float;
#endif
using net = resnet<50, fp32, device>;
using engine = net::engine;

struct entry {
  std::string what;
  double bytes;
  std::function<void()> run;
  double least = 1e9;
};
using entries = std::vector<entry>;

/// Numbers of that size, never all alike: what is zero may move, and multiply, more quickly.
template <class T>
void draw(const device& where, span_on<T, device> to, device::stream s, double size) {
  std::vector<T> host(to.size);
  random_sequence random(1, purpose::test, to.size, 0);
  constexpr std::size_t period = 1'000'003;  // a prime of them: a gigabyte is drawn in no time
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = i >= period ? host[i - period]
                          : rounded<T>(static_cast<wide<T>>(size * (2 * random.uniform() - 1)));
  where.copy(to.data, host.data(), host.size() * sizeof(T), s);
  where.finish(s);
}

/// Room for every rule's slots.
struct any_rule {
  static constexpr int slots = 2;
};
using memory_of_rules = planes<float, device, any_rule, solo>;

template <class O>
void add_rule(entries& to, memory_of_rules& memory, device::stream s, const char* name,
              const O& rule, double passes) {
  const auto all = memory.sight(memory.trainables(), 0, true);
  view<float, device, O::slots> v{all.weights, all.grads, {}, all.segments};
  std::copy_n(all.slots.begin(), v.slots.size(), v.slots.begin());
  v.weight_squares = all.weight_squares;
  v.grad_squares = all.grad_squares;
  v.grad_square = all.grad_square;
  v.sums = all.sums;
  v.now = all.now;
  to.push_back({name, passes * 4.0 * static_cast<double>(net::parameters()), [=] {
                  rule.accept(v, moment{1, 1, 1, 0, 1e-4, 1e-4}, s);
                }});
}

void add_norms(entries& to, memory_of_rules& memory, device::stream s) {
  const auto all = memory.sight(memory.trainables(), 0, true);
  to.push_back(
      {"norms of weights and gradient", 2 * 4.0 * static_cast<double>(net::parameters()), [=] {
         segmented_squares<float>(s, all.segments, all.grads, all.grad_squares);
         segmented_squares<float>(s, all.segments, all.weights, all.sums);
       }});
}

/// A batch norm's memory.
template <int C, class Epilogue>
class normed {
  static constexpr int V = engine::block<number>(C);

 public:
  normed(const device& where, device::stream s, int side, int samples)
      : s_(s), problem_{{C, side, side}}, samples_(samples), where_(where) {
    for (auto* one : {&x_, &y_, &residual_, &dy_, &dx_}) {
      *one = buffer<number, device>(where, numbers());
      draw(where, one->span(), s, 1);
    }
    for (auto* one : {&gamma_, &beta_, &mean_, &variance_}) {
      *one = buffer<float, device>(where, problem_.lanes_of(V));
      draw(where, one->span(), s, 1);
    }
    saved_ = buffer<float, device>(where, problem_.saved(samples, V));
    scratch_ = buffer<double, device>(where, problem_.scratch(samples, V));
  }
  [[nodiscard]] std::size_t numbers() const {
    return static_cast<std::size_t>(samples_) * sample_size(problem_.at, V);
  }
  void add_to(entries& all) {
    constexpr bool adds = std::same_as<Epilogue, epilogue::add_relu>;
    const std::string name = text(adds ? "batch norm + add + ReLU" : "batch norm + ReLU", " on ",
                                  samples_, "x", to_text(problem_.at));
    const double pass = static_cast<double>(numbers() * sizeof(number));
    all.push_back({name + ", forward", (adds ? 4 : 3) * pass, [this] { forward(); }});
    all.push_back({name + ", backward", 7 * pass, [this] { backward(); }});
  }

 private:
  batch_norm_tensors<number, float> tensors() {
    return {x_.span().data,    y_.span().data,     gamma_.span().data,
            beta_.span().data, saved_.span().data, scratch_.span().data};
  }
  void forward() {
    count_ = batch_norm_forward<number, V, Epilogue>(
        problem_, samples_, tensors(), static_cast<const number*>(residual_.span().data),
        mean_.span().data, variance_.span().data, {}, s_);
  }
  void backward() {
    batch_norm_backward<number, V, Epilogue>(problem_, samples_, tensors(), count_, dy_.span().data,
                                             dx_.span().data, mean_.span().data,
                                             variance_.span().data, into::overwrite, {}, s_);
  }

  device::stream s_;
  batch_norm_problem problem_;
  int samples_;
  device where_;
  double count_ = 0;
  buffer<number, device> x_, y_, residual_, dy_, dx_;
  buffer<float, device> gamma_, beta_, mean_, variance_, saved_;
  buffer<double, device> scratch_;
};

void measure(int reps, int samples, int megabytes) {
  const device where;
  const auto s = where.open();
  entries all;

  const std::size_t size = static_cast<std::size_t>(megabytes) << 20;
  buffer<float, device> from(where, size / sizeof(float)), to(where, size / sizeof(float));
  draw(where, from.span(), s, 1);
  all.push_back({"copy", 2.0 * static_cast<double>(size),
                 [&] { where.copy(to.span().data, from.span().data, size, s); }});

  memory_of_rules memory(where, net::segments());
  draw(where, memory.weights(), s, 0.1);
  draw(where, memory.grads(), s, 0.01);
  memory.begin({1, 1, 1, 0, 1e-4, 1e-4}, s);
  memory.measure(memory.trainables(), 0, true, s);
  memory.tally(memory.trainables(), 0, true, s);
  add_norms(all, memory, s);
  add_rule(all, memory, s, "sgd", sgd{.weight_decay = 1e-4}, 5);
  add_rule(all, memory, s, "lars", lars{}, 5);
  add_rule(all, memory, s, "lamb", lamb{}, 10);

  normed<64, epilogue::relu> first(where, s, 112, samples);
  normed<256, epilogue::add_relu> second(where, s, 56, samples);
  normed<128, epilogue::relu> third(where, s, 28, samples);
  first.add_to(all);
  second.add_to(all);
  third.add_to(all);

  bench::stopwatch watch;
  for (int k = -2; k < reps; ++k)  // two turns warm up
    for (entry& one : all) {
      const double seconds = watch(s, one.run);
      if (k >= 0) one.least = std::min(one.least, seconds);
    }
  where.finish(s);
  const double copy = all[0].bytes / all[0].least;
  for (const entry& one : all) {
    const double rate = one.bytes / one.least;
    std::printf(
        "{\"what\": \"%s\", \"device\": \"%s\", \"megabytes\": %.1f, \"milliseconds\": %.4f, "
        "\"gigabytes_per_second\": %.1f, \"share\": %.3f, \"bar\": 0.85, \"within\": %s}\n",
        one.what.c_str(), std::string(device::name).c_str(), 1e-6 * one.bytes, 1e3 * one.least,
        1e-9 * rate, rate / copy, rate >= 0.85 * copy ? "true" : "false");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "bandwidth: rules and batch norm beside a copy");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int samples = o.whole("batch", 4, "samples of batch norm's layers; a GPU wants 256");
    const int megabytes = o.whole("copy", 64, "megabytes that are copied; a GPU wants 1024");
    o.done();
    expects(reps > 0 && samples > 0 && megabytes > 0, "bandwidth: nothing to measure");
    measure(reps, samples, megabytes);
  });
}
