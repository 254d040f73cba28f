// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A step of ResNet-20 on images and their adversarial copies, beside a plain step on as many
// images: twice the batch. Copies are made by a thread beside the step before, on processors that
// may be idle or busy, or first in the step (fresh weights). And steps of sharpness_aware, SAM's
// and LookSAM's of a period of five, beside a plain step on the same images. Minima over the
// repetitions, of which each has all programs in turn; a step begins the copies of the next one.
#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/nn/sharpness_aware.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/options.hpp"

namespace {

using namespace cordee;

struct options {
  int reps = 9, batch = 64, threads = 1;
};
constexpr const char* usage =
    "adversarial_cost: a step with adversarial images beside a plain one of twice the batch\n"
    "  --reps N      repetitions, minima are printed   (9)\n"
    "  --batch N     images, without their copies      (64)\n"
    "  --threads N   workers                           (1)\n"
    "  --help        this\n";

using net = resnet<20, fp32, cpu>;

/// A trainer that makes steps of one batch.
template <class M>
struct stepper {
  M model;
  synthetic images{{3, 32, 32}, 10, 256, 1};
  decltype(loader{std::declval<const synthetic&>(), self_comm{}, loader_options{}}) feed;
  trainer<M, sgd, constant, solo> run;
  std::vector<batch<cpu>> batches;
  double least = 1e300;

  stepper(int batch, const auto&... arguments)
      : model(arguments...),
        feed(images, self_comm{}, loader_options{.global_batch = batch}),
        run(model, sgd{.momentum = 0.9}, constant{0.01}, solo{}) {}
  void measure(int steps = 1) {
    if (batches.empty()) {  // the same in every step, hence the loader's memory stays
      const auto update = feed.next();
      batches.assign(update.begin(), update.end());
    }
    const double begin = bench::now();
    if constexpr (detail::nn::LooksAhead<M>) run.look_ahead(std::span(std::as_const(batches)));
    for (int k = 0; k < steps; ++k) run.step(batches, 0);
    least = std::min(least, (bench::now() - begin) / steps);
  }
};

}  // namespace

int main(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps}, {"--batch", &o.batch}, {"--threads", &o.threads}});
  const cpu device(o.threads);
  stepper<net> plain(2 * o.batch, device);
  stepper<adversarial<net>> one(o.batch, detail::nn::adversarial_options{}, device);
  stepper<adversarial<net>> three(o.batch, detail::nn::adversarial_options{.steps = 3}, device);
  constexpr int period = 5;
  stepper<net> same(o.batch, device);
  stepper<sharpness_aware<net>> uphill(o.batch, device), looks(o.batch, device);
  looks.model.sharpness.period = period;
  for (int r = 0; r < o.reps + 1; ++r) {  // the first one allocates
    plain.measure();
    one.measure();
    three.measure();
    same.measure(period);
    uphill.measure(period);
    looks.measure(period);
  }
  std::printf("plain, %d images                   %8.1f ms\n", 2 * o.batch, 1e3 * plain.least);
  std::printf("%4d images and copies, 1 step     %8.1f ms   %.2f\n", o.batch, 1e3 * one.least,
              one.least / plain.least);
  std::printf("%4d images and copies, 3 steps    %8.1f ms   %.2f\n", o.batch, 1e3 * three.least,
              three.least / plain.least);
  std::printf("plain, %d images                   %8.1f ms\n", o.batch, 1e3 * same.least);
  std::printf("%4d images, SAM                   %8.1f ms   %.2f\n", o.batch, 1e3 * uphill.least,
              uphill.least / same.least);
  std::printf("%4d images, LookSAM, period %d     %8.1f ms   %.2f\n", o.batch, period,
              1e3 * looks.least, looks.least / same.least);
}
