// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors of Adam, AdamP, RMSprop, its warm-up (Akiba et al. 2017), Lion, Adan, LANS, LAMB's
// and LARC's variants through the whole trainer on the toy set T4. Those that docs/mathematics.md
// does not have are of tests/support/optimizer_goldens.py.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/goldens.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class P, class O>
void reaches(const O& optimizer, const std::vector<double>& learning_rate,
             const t4_vectors& expected) {
  check_golden<P>(optimizer, learning_rate, expected, {1, 3, 4});
}

const std::vector<double> hundredth{0.01, 0.01, 0.01}, falling{0.01, 0.01, 0.005};

// Three steps of a model at these epochs.
template <class P, class Model, class O, class Schedule>
void reaches_with(const O& optimizer, const Schedule& schedule, std::array<double, 3> epochs,
                  const t4_vectors& expected) {
  for (const int ranks : {1, 3, 4}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      Model model{{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))}};
      trainer run{model, optimizer, schedule, ring{comm}};
      for (const double epoch : epochs) run.step(std::array{one_each(ranks)}, epoch);
      t4_vectors out;
      for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(run.weights(), k));
      return out;
    });
    for (const t4_vectors& weights : by_rank)
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < expected[k].size(); ++i) {
          CAPTURE(t4_table[k].name);
          CAPTURE(weights[k][i]);
          CHECK(close(weights[k][i], expected[k][i], golden_tolerance<P>));
        }
  }
}

template <class P>
struct of_t4 : quadratic<P> {};
template <class P, class O>
void reaches_at_epochs(const O& optimizer, const t4_vectors& expected) {
  reaches_with<P, of_t4<P>>(optimizer, constant{0.5}, {0, 9, 11}, expected);
}

// T4 with W1 of two rows of two numbers and W2 of one row. The gradient at W1's start is parallel
// to either row, but nearly orthogonal to the whole.
constexpr auto t4_with_rows = [] {
  auto table = t4_table;
  table[0].shape = {2, 2, 0, 0};
  table[2].shape = {1, 2, 0, 0};
  return table;
}();
template <class P>
struct with_rows : quadratic<P> {
  static constexpr std::span<const segment> segments() { return t4_with_rows; }
  void initialize(span_on<typename P::master, cpu> plane, std::uint64_t seed) const {
    quadratic<P>::initialize(plane, seed);
    for (std::size_t i = 0; const double x : {0.5, -0.2, 0.15, -0.15})
      plane[i++] = static_cast<typename P::master>(x);
  }
};
template <class P>
void reaches_with_rows(const adamp& optimizer, const t4_vectors& expected) {
  reaches_with<P, with_rows<P>>(optimizer, learning_rates(falling), {0, 1, 2}, expected);
}

}  // namespace

TEST_CASE_TEMPLATE("adamp is timm's without projection", P, GOLDEN_PRECISIONS) {
  reaches_with_rows<P>({.weight_decay = 0.01},
                       {{0.47497765717, -0.175052213967, 0.174658398632, -0.174658399069},
                        {0.0249000724681, 0.175024211923},
                        {0.974776515786, -1.97451589399},
                        {0.0253029386991}});
}
TEST_CASE_TEMPLATE("adamp is timm's, projected by tensor in two of three steps", P,
                   GOLDEN_PRECISIONS) {
  reaches_with_rows<P>({.weight_decay = 0.01, .delta = 0.5},
                       {{0.486419933465, -0.179559128575, 0.178148638247, -0.178148638689},
                        {0.0249000724681, 0.175024211923},
                        {0.974776515786, -1.97451589399},
                        {0.0253029386991}});
}
TEST_CASE_TEMPLATE("adamp is timm's with Nesterov's momentum, projected by row", P,
                   GOLDEN_PRECISIONS) {
  reaches_with_rows<P>({.weight_decay = 0.01, .delta = 2, .nesterov = true},
                       {{0.507953005328, -0.179325946361, 0.149996253474, -0.149996254054},
                        {0.0384520408056, 0.160714591946},
                        {0.984109496394, -2.00783451304},
                        {0.0134154477642}});
}
TEST_CASE_TEMPLATE("adam is PyTorch's, with decay in the gradient", P, GOLDEN_PRECISIONS) {
  reaches<P>(adam{.weight_decay = 0.01}, falling,
             {{0.475094485752, -0.275039372335, 0.775011082121, 0.075024258932},
              {0.0249000724681, 0.175024211923},
              {0.975022981103, -1.97501201949},
              {0.0253029386991}});
}
TEST_CASE_TEMPLATE("rmsprop is PyTorch's, without and with momentum", P, GOLDEN_PRECISIONS) {
  reaches<P>(rmsprop{.weight_decay = 0.01}, falling,
             {{0.39610880566, -0.142894713207, 0.61126644919, -0.0743285697853},
              {0.100000000249, 0.025618249376},
              {0.824233515911, -1.81225374227},
              {0.00662467920812}});
  reaches<P>(rmsprop{.momentum = 0.9, .weight_decay = 0.01}, falling,
             {{0.296824603045, -0.0119321005913, 0.455996904669, -0.218629100886},
              {0.196866318981, -0.118724566314},
              {0.678791269571, -1.65768523674},
              {-0.042628986709}});
}
TEST_CASE_TEMPLATE("centered_rmsprop is PyTorch's", P, GOLDEN_PRECISIONS) {
  reaches<P>(centered_rmsprop{.smoothing = 0.5, .momentum = 0.9, .weight_decay = 0.01}, falling,
             {{0.416167218854, -0.209586365923, 0.706349903099, 0.0077852190213},
              {0.0832450662288, 0.107779802516},
              {0.907639047962, -1.90644603834},
              {-0.0192933033769}});
}

TEST_CASE("lion, adan and lans reach their golden vectors") {
  reaches<fp64>(lion{.weight_decay = 0.01}, falling,
                {{0.47487700995, -0.27492700595, 0.77480201595, 0.07497700195},
                 {0.025, 0.175},
                 {0.97475201995, -1.97450203995},
                 {0.025}});
  reaches<fp64>(adan{.weight_decay = 0.01}, falling,
                {{0.475025781234, -0.274970928092, 0.774812519501, 0.0750010304336},
                 {0.0248548666566, 0.175021750533},
                 {0.97477636914, -1.97451503502},
                 {0.0256376702274}});
  reaches<fp64>(lans{}, {0.1, 0.1, 0.05},
                {{0.391096663506, -0.18298243454, 0.680307340227, -0.0180591023893},
                 {0.0333695964321, 0.166371309617},
                 {0.651212860047, -1.62099583293},
                 {0.038475}});
}

TEST_CASE_TEMPLATE("rmsprop_warmup reaches its golden vector", P, GOLDEN_PRECISIONS) {
  reaches_at_epochs<P>(rmsprop_warmup{.weight_decay = 0},
                       {{0.430313959599, -0.0728206431935, -0.0911015219289, -0.419015089432},
                        {0.0696860404011, -0.138302520942},
                        {0.893059638071, -1.90647814968},
                        {0.0112695576711}});
}
TEST_CASE_TEMPLATE("rmsprop_warmup reaches the golden vector of the printed slope", P,
                   GOLDEN_PRECISIONS) {
  reaches_at_epochs<P>(rmsprop_warmup{.slope = 2, .weight_decay = 0},
                       {{0.423012204729, -0.0482548832, -0.175295562466, -0.453731260448},
                        {0.0769877952709, -0.175874961702},
                        {0.880041602924, -1.89503693526},
                        {0.00807164605847}});
}

TEST_CASE_TEMPLATE("lambc, clipped to norm 1, reaches its golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(clip{lambc{}, 1.0, 0}, hundredth,
             {{0.485206072489, -0.285219912463, 0.785137958346, 0.0852450333748},
              {0.0298654717144, 0.170022203155},
              {0.969725984106, -1.96941098364},
              {0.0204507183096}});
}
TEST_CASE_TEMPLATE("deepspeed_lamb reaches its golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(deepspeed_lamb{}, hundredth,
             {{0.496259070186, -0.296260205845, 0.796254835847, 0.0962618964484},
              {0.00106379273846, 0.198936125616},
              {0.988129628346, -1.98809661167},
              {0.0496241508616}});
}
TEST_CASE_TEMPLATE("larc without its clip reaches the vector of apex's scaling mode", P,
                   GOLDEN_PRECISIONS) {
  reaches<P>(larc{.weight_decay = 0.01, .limits = {.clip = false}}, {1, 1, 0.5},
             {{0.495967102495, -0.284618398668, 0.731426695279, 0.054736171178},
              {0.00277257943274, 0.183438414968},
              {0.864395068329, -1.87209323482},
              {0.0458028008394}});
}
