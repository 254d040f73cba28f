// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory-bound passes as a share of the device's copy bandwidth: optimizers' steps on ResNet-50's
// 25.6 million parameters in 161 segments, and batch norm followed by a ReLU on layers of
// ResNet-50. A line of JSON each; minima over interleaved repetitions.
//
// Bytes are those that must move: whole passes, each number read or written once a pass. Statistics
// must be complete before the numbers that depend on them, so batch norm has two phases
// (before | after).
//
//   copy       read, write                  norms   w, g
//   sgd, lars  w, g, u, write w, u          lamb    g, m, v, w, write m, v, d | w, d, write w
//   adam       w, g, m, v, write w, m, v    lars_norm_of_sum    w, g | as lars
//   adamp      as lamb, with p for d
//   zero_one_adam, its own step     w, g, m, v, write w, m, v; without v where it stays
//     an exchange                   w, a, v, write u | v, u, a, write w, m, a
//   one_bit_lamb, warm-up           as lamb
//     compressed                    w, m, v, f, u, write m, f, d | w, d, write w
//
//                forward                 backward
//   relu         x | x, write y          x, y, dy | x, y, dy, write dx
//   add_relu     x | x, r, write y       x, y, dy, write dy | x, dy, write dx
//
// The device is the one that the program is compiled for; on the CPU it checks the program.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/stopwatch.hpp"
#include "examples/options.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;

namespace {

#if defined(__CUDACC__)
using D = gpu;
using number = fp16::storage;
#else
using D = cpu;
using number = float;
#endif
using net = resnet<50, fp32, D>;
using engine = net::engine;

struct entry {
  std::string name;
  double bytes;
  std::function<void()> run;
  double least = 1e9;
};
using entries = std::vector<entry>;

/// Random numbers up to `size`: equal or zero numbers may move, and multiply, faster.
template <class T>
void fill_random(const D& device, span_on<T, D> to, D::stream s, double size) {
  std::vector<T> host(to.size);
  random_sequence random(1, purpose::test, to.size, 0);
  constexpr std::size_t period = 1'000'003;  // a prime number of them, repeated, to save time
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = i >= period ? host[i - period]
                          : rounded<T>(static_cast<wide<T>>(size * (2 * random.uniform() - 1)));
  device.copy(to.data, host.data(), host.size() * sizeof(T), s);
  device.finish(s);
}

/// As many slots as any of the optimizers.
struct four_slots {
  static constexpr int slots = 4;
};
using optimizer_planes = detail::train::planes<float, D, four_slots, solo>;

/// The entry of run(view).
template <class O, class F>
void add_pass(entries& to, optimizer_planes& memory, const char* name, double passes,
              const F& run) {
  const auto all = memory.view_of(memory.trainables(), 0, true);
  static_assert(O::slots <= four_slots::slots);
  optimizer_view<float, D, O::slots> v{all.weights, all.grads, {}, all.segments};
  std::copy_n(all.slots.begin(), v.slots.size(), v.slots.begin());
  v.squared_weight_norms = all.squared_weight_norms;
  v.squared_grad_norms = all.squared_grad_norms;
  v.squared_global_norm = all.squared_global_norm;
  v.sums = all.sums;
  v.info = all.info;
  to.push_back({name, passes * 4.0 * static_cast<double>(net::parameters()),
                [v, run = run]() mutable { run(v); }});
}
template <class O>
void add_optimizer(entries& to, optimizer_planes& memory, D::stream s, const char* name,
                   const O& optimizer, double passes) {
  add_pass<O>(to, memory, name, passes, [=](const auto& v) {
    optimizer.accept(v, step_info{1, 1, 1, 0, 1e-4, 1e-4}, s);
  });
}
#if !defined(__CUDACC__)
/// The passes of optimizers that exchange momenta.
void add_momentum_exchanges(entries& to, optimizer_planes& memory, D::stream s) {
  const std::vector<double> ones(2 * memory.trainables().size(), 1);
  const auto add = [&]<class O>(const char* name, const O& optimizer, double passes, bool proposes,
                                bool accepts) {
    add_pass<O>(to, memory, name, passes, [=, numbers = ones](auto v) mutable {
      v.numbers = {numbers.data(), numbers.size()};
      const step_info info{4, 4, 4, 4, 1e-4, 1e-4};
      if (proposes) optimizer.propose(v, info, s);
      if (accepts) optimizer.accept(v, info, s);
    });
  };
  add("zero_one_adam, variance step", zero_one_adam{}, 7, false, true);
  add("zero_one_adam, other steps before the freeze", zero_one_adam{.var_update_scaler = 1}, 6,
      false, true);
  const zero_one_adam local{.var_freeze_step = 0, .local_step_scaler = 1};
  add("zero_one_adam, local step", local, 6, true, false);
  const zero_one_adam exchanging{.var_freeze_step = 0, .local_step_clipper = 1};
  add("zero_one_adam, local step and exchange", exchanging, 16, true, true);
  add("one_bit_lamb, warm-up", one_bit_lamb{.start_epoch = 1000}, 10, false, true);
  add("one_bit_lamb, compressed", one_bit_lamb{}, 11, false, true);
  add("one_bit_lamb, local momentum", one_bit_lamb{}, 3, true, false);
}
#endif

void add_norms(entries& to, optimizer_planes& memory, D::stream s) {
  const auto all = memory.view_of(memory.trainables(), 0, true);
  to.push_back(
      {"norms of weights and gradient", 2 * 4.0 * static_cast<double>(net::parameters()), [=] {
         segmented_squares<float>(s, all.segments, all.grads, all.squared_grad_norms, all.weights,
                                  all.sums);
       }});
}

/// A batch norm with its buffers.
template <int C, class Epilogue>
class norm_layer {
  static constexpr int V = engine::block<number>(C);

 public:
  norm_layer(const D& device, D::stream s, int side, int samples)
      : s_(s), problem_{{C, side, side}}, samples_(samples), device_(device) {
    for (auto* tensor : {&x_, &y_, &residual_, &dy_, &dx_}) {
      *tensor = buffer<number, D>(device, numbers());
      fill_random(device, tensor->span(), s, 1);
    }
    for (auto* tensor : {&gamma_, &beta_, &mean_, &variance_}) {
      *tensor = buffer<float, D>(device, problem_.padded_channels(V));
      fill_random(device, tensor->span(), s, 1);
    }
    saved_ = buffer<float, D>(device, problem_.saved_size(samples, V));
    scratch_ = buffer<double, D>(device, problem_.scratch_size(samples, V));
  }
  [[nodiscard]] std::size_t numbers() const {
    return static_cast<std::size_t>(samples_) * sample_size(problem_.in, V);
  }
  void add_to(entries& list) {
    constexpr bool adds = std::same_as<Epilogue, epilogue::add_relu>;
    const std::string name = concat(adds ? "batch norm + add + ReLU" : "batch norm + ReLU", " on ",
                                    samples_, "x", describe(problem_.in));
    const double pass = static_cast<double>(numbers() * sizeof(number));
    list.push_back({name + ", forward", (adds ? 4 : 3) * pass, [this] { forward(); }});
    list.push_back({name + ", backward", 7 * pass, [this] { backward(); }});
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
                                             variance_.span().data, write_mode::overwrite, {}, s_);
  }

  D::stream s_;
  batch_norm_problem problem_;
  int samples_;
  D device_;
  double count_ = 0;
  buffer<number, D> x_, y_, residual_, dy_, dx_;
  buffer<float, D> gamma_, beta_, mean_, variance_, saved_;
  buffer<double, D> scratch_;
};

void measure(int reps, int samples, int megabytes) {
  const D device;
  const auto s = device.make_stream();
  entries list;

  const std::size_t size = static_cast<std::size_t>(megabytes) << 20;
  buffer<float, D> from(device, size / sizeof(float)), to(device, size / sizeof(float));
  fill_random(device, from.span(), s, 1);
  list.push_back({"copy", 2.0 * static_cast<double>(size),
                  [&] { device.copy(to.span().data, from.span().data, size, s); }});

  optimizer_planes memory(device, net::segments());
  fill_random(device, memory.weights(), s, 0.1);
  fill_random(device, memory.grads(), s, 0.01);
  memory.begin_step({1, 1, 1, 0, 1e-4, 1e-4}, true, s);
  memory.compute_norms(memory.trainables(), 0, true, s);
  memory.record_norms(memory.trainables(), 0, true, s);
  add_norms(list, memory, s);
  add_optimizer(list, memory, s, "sgd", sgd{.weight_decay = 1e-4}, 5);
  add_optimizer(list, memory, s, "lars", lars{}, 5);
  add_optimizer(list, memory, s, "larc", larc{}, 5);
  add_optimizer(list, memory, s, "lars_norm_of_sum", lars_norm_of_sum{}, 7);
  add_optimizer(list, memory, s, "lamb", lamb{}, 10);
  add_optimizer(list, memory, s, "lambc", lambc{}, 10);
  add_optimizer(list, memory, s, "deepspeed_lamb", deepspeed_lamb{}, 10);
  add_optimizer(list, memory, s, "adam", adam{}, 7);
  add_optimizer(list, memory, s, "adamw", adamw{}, 7);
#if !defined(__CUDACC__)
  add_optimizer(list, memory, s, "adamp", adamp{}, 10);
#endif
  add_optimizer(list, memory, s, "lion", lion{}, 5);
  add_optimizer(list, memory, s, "adan", adan{}, 11);
  add_optimizer(list, memory, s, "lans", lans{}, 13);
  add_optimizer(list, memory, s, "schedule_free_sgd", schedule_free_sgd{}, 7);
  add_optimizer(list, memory, s, "schedule_free_adamw", schedule_free_adamw{}, 9);
  add_optimizer(list, memory, s, "rmsprop", rmsprop{.momentum = 0.9}, 7);
  add_optimizer(list, memory, s, "centered_rmsprop", centered_rmsprop{.momentum = 0.9}, 9);
  add_optimizer(list, memory, s, "rmsprop_warmup", rmsprop_warmup{.center = 0}, 7);
  add_optimizer(list, memory, s, "qg_dmsgd, accept", qg_dmsgd{}, 5);
  add_optimizer(list, memory, s, "adapt_while_combine{sgd}, accept", adapt_while_combine{sgd{}}, 5);
  add_optimizer(list, memory, s, "weight_average{sgd}",
                weight_average{sgd{}, exponential_average{}}, 8);

#if !defined(__CUDACC__)
  add_momentum_exchanges(list, memory, s);
#endif

  norm_layer<64, epilogue::relu> first(device, s, 112, samples);
  norm_layer<256, epilogue::add_relu> second(device, s, 56, samples);
  norm_layer<128, epilogue::relu> third(device, s, 28, samples);
  first.add_to(list);
  second.add_to(list);
  third.add_to(list);

  bench::stopwatch timer;
  for (int k = -2; k < reps; ++k)  // two warm-up repetitions
    for (entry& e : list) {
      const double seconds = timer(s, e.run);
      if (k >= 0) e.least = std::min(e.least, seconds);
    }
  device.finish(s);
  const double copy = list[0].bytes / list[0].least;
  for (const entry& e : list) {
    const double bandwidth = e.bytes / e.least;
    std::printf(
        "{\"what\": \"%s\", \"device\": \"%s\", \"megabytes\": %.1f, \"milliseconds\": %.4f, "
        "\"gigabytes_per_second\": %.1f, \"share\": %.3f, \"bar\": 0.85, \"within\": %s}\n",
        e.name.c_str(), std::string(D::name).c_str(), 1e-6 * e.bytes, 1e3 * e.least,
        1e-9 * bandwidth, bandwidth / copy, bandwidth >= 0.85 * copy ? "true" : "false");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "bandwidth: optimizers and batch norm compared with a copy");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int samples = o.whole("batch", 4, "samples of batch norm's layers; for a GPU 256");
    const int megabytes = o.whole("copy", 64, "megabytes that are copied; for a GPU 1024");
    o.done();
    expects(reps > 0 && samples > 0 && megabytes > 0, "bandwidth: nothing to measure");
    measure(reps, samples, megabytes);
  });
}
