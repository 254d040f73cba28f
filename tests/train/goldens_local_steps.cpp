// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers that average weights over an exact mean, on 1, 3 and 4 ranks: post-local SGD around
// lars and lamb; and what decentralized methods are there.
#include <doctest/doctest.h>

#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/train/goldens_mixing.hpp"

using namespace cordee;
using namespace support;

namespace {

const by_ranks of_lars{{{0.49039347358, -0.263615061279, 0.63892473178, -0.00557505940219, 0.14401,
                         0.22184, 0.692023430137, -1.69253234809, -0.022005}},
                       {{0.492388312386, -0.261951928696, 0.649503137792, 0.00398098676976,
                         -0.22989, -0.02871, 0.703753854813, -1.75904575235, -0.395905},
                        {0.49517431779, -0.251466649502, 0.646264511735, 0.00925770604018, 0.14401,
                         0.22184, 0.73045117282, -1.70941181414, -0.022005},
                        {0.502898253243, -0.22828917395, 0.650867612702, 0.0304658890196, 0.51791,
                         0.47239, 0.8009387608, -1.68140334458, 0.351895}},
                       {{0.494232888049, -0.260860999046, 0.660773279742, 0.013927594418, -0.41684,
                         -0.153985, 0.719926066639, -1.784979409, -0.582855},
                        {0.495963611007, -0.25401832762, 0.65794824456, 0.0167706462853, -0.04294,
                         0.096565, 0.72987703833, -1.74880941462, -0.208955},
                        {0.500705873194, -0.237635944402, 0.655714072124, 0.0272536116706, 0.33096,
                         0.347115, 0.782231037467, -1.69898109376, 0.164945},
                        {0.509689764137, -0.216502924007, 0.674576245461, 0.0585841900928, 0.70486,
                         0.597665, 0.846307447793, -1.69551177801, 0.538845}}};
const by_ranks of_lamb{
    {{0.48401460956, -0.284019115609, 0.783924578046, 0.0840432717342, 0.0322400665318,
      0.167561613306, 0.949498845373, -1.94892298395, 0.0183364556778}},
    {{0.493798654848, -0.296242588947, 0.783862127941, 0.0840057425291, 0.00746647805399,
      0.167735185048, 0.949867761989, -1.94858517908, 0.0375597607364},
     {0.493800691389, -0.293802266783, 0.783861768263, 0.0840065031707, 0.0124539714824,
      0.167742798546, 0.949893631056, -1.94855951378, 0.0375991738665},
     {0.496246260331, -0.293792380421, 0.78385416448, 0.0840263994024, 0.0124675706934,
      0.167958148956, 0.950493405128, -1.94804865466, 0.0425588453075}},
    {{0.498712986619, -0.293775480014, 0.783847694997, 0.0913738652144, -0.00248377353517,
      0.182529456958, 0.972543950292, -1.94888472206, 0.0474979419512},
     {0.498712175972, -0.291337224347, 0.78384707713, 0.0913733559033, -0.00246589152146,
      0.182531452705, 0.972606034724, -1.94882193517, 0.0474989178625},
     {0.50115672146, -0.291327922282, 0.783844977771, 0.0913724003526, 0.00251405320963,
      0.182540143966, 0.972625123584, -1.94880303339, 0.0524930818893},
     {0.501158255883, -0.291328734607, 0.783849126639, 0.0938229146475, 0.0025147164742,
      0.187540402243, 0.980278479106, -1.94879488144, 0.0524965207841}}};

constexpr auto over_ring_graph = [](threads comm) { return gossip{comm, topologies::ring{}}; };

}  // namespace

TEST_CASE_TEMPLATE(
    "local_steps of lars and lamb are post-local: ratios, moments and decay of a rank", P, fp64,
    fp32) {
  reaches<P>(local_steps{lars{.weight_decay = 0.01, .trust_coefficient = 0.02}, 2, 2},
             {1, 1, 0.5, 0.5, 0.25}, of_lars, over_mean);
  reaches<P>(local_steps{lamb{}, 2, 2}, {0.01, 0.01, 0.005, 0.005, 0.0025}, of_lamb, over_mean);
}

TEST_CASE("over an exact mean, also gossip on a ring of three, orders of DmSGD are sgd") {
  const sgd plain{.momentum = 0.9, .weight_decay = 0.01};
  const std::vector<double> rates{0.1, 0.1, 0.1, 0.1};
  const auto check = [&](int ranks, const auto& make) {
    const t4_vectors expected = train_t4<fp64>(ranks, plain, rates)[0];
    const auto is_sgd = [&](const t4_numbers& weights) {
      auto w = weights.begin();
      for (const auto& segment : expected)
        for (const double number : segment) CHECK(close(*w++, number, 1e-13));
    };
    for (const auto& w : trained<fp64>(ranks, decentlam{.weight_decay = 0.01}, rates, make))
      is_sgd(w);
    for (const auto& w : trained<fp64>(ranks, decentlam_over{plain}, rates, make)) is_sgd(w);
    for (const auto& w : trained<fp64>(ranks, local_steps{plain, 1}, rates, make)) is_sgd(w);
    t4_numbers mean{};  // while combining, the ranks stay apart
    for (const auto& w : trained<fp64>(ranks, adapt_while_combine{plain}, rates, make))
      for (std::size_t i = 0; i < w.size(); ++i) mean[i] += w[i] / ranks;
    is_sgd(mean);
  };
  for (const int ranks : {1, 3, 4}) check(ranks, over_mean);
  for (const int ranks : {1, 3}) check(ranks, over_ring_graph);
}
