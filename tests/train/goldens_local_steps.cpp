// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers that average weights over an exact mean, on 1, 3 and 4 ranks: post-local SGD around
// lars and lamb, outer momentum; and what decentralized methods are there.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/counting_communicator.hpp>

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

const by_ranks of_diloco{
    {{0.368614673969, 0.0952024458471, -0.561094193947, -0.576719363608, 0.1254226528,
      -0.3898830052, 0.775349026774, -1.78466363953, -0.0127113264}},
    {{0.321322238844, 0.00792602559714, -0.681653649322, -0.724468404108, 0.0780926528,
      -0.4772305052, 0.750751284212, -1.79720513816, -0.0600413264},
     {0.368614673969, 0.0952024458471, -0.561094193947, -0.576719363608, 0.1254226528,
      -0.3898830052, 0.775349026774, -1.78466363953, -0.0127113264},
     {0.415907109094, 0.182478866097, -0.440534738572, -0.428970323108, 0.1727526528, -0.3025355052,
      0.799946769337, -1.77212214091, 0.0346186736}},
    {{0.297676021281, -0.0357121845279, -0.741933377009, -0.798342924358, 0.0544276528,
      -0.5209042552, 0.738452412931, -1.80347588747, -0.0837063264},
     {0.344968456406, 0.0515642357221, -0.621373921634, -0.650593883858, 0.1017576528,
      -0.4335567552, 0.763050155493, -1.79093438885, -0.0363763264},
     {0.392260891531, 0.138840655972, -0.500814466259, -0.502844843358, 0.1490876528, -0.3462092552,
      0.787647898056, -1.77839289022, 0.0109536736},
     {0.439553326656, 0.226117076222, -0.380255010884, -0.355095802858, 0.1964176528, -0.2588617552,
      0.812245640618, -1.7658513916, 0.0582836736}}};
const by_ranks of_slowmo{{{0.421984872875, -0.0473649368748, -0.14743063013, -0.420606563044,
                           0.07442325, -0.176788, 0.870987759856, -1.87829287609, 0.012788375}},
                         {{0.373204461563, -0.1403602845, -0.280379189068, -0.589550358294,
                           0.0256195, -0.269828, 0.84600788545, -1.89093260353, -0.036015375},
                          {0.421984872875, -0.0473649368748, -0.14743063013, -0.420606563044,
                           0.07442325, -0.176788, 0.870987759856, -1.87829287609, 0.012788375},
                          {0.470765284188, 0.0456304107502, -0.0144820711928, -0.251662767794,
                           0.123227, -0.083748, 0.895967634263, -1.86565314865, 0.061592125}},
                         {{0.348814255906, -0.186857958312, -0.346853468537, -0.674022255919,
                           0.001217625, -0.316348, 0.833517948247, -1.89725246725, -0.06041725},
                          {0.397594667219, -0.0938626106873, -0.213904909599, -0.505078460669,
                           0.050021375, -0.223308, 0.858497822653, -1.88461273981, -0.0116135},
                          {0.446375078531, -0.000867263062342, -0.0809563506616, -0.336134665419,
                           0.098825125, -0.130268, 0.88347769706, -1.87197301237, 0.03719025},
                          {0.495155489844, 0.0921280845627, 0.0519922082759, -0.167190870169,
                           0.147628875, -0.037228, 0.908457571466, -1.85933328494, 0.085994}}};

const by_ranks of_fragments{
    {{0.274860464843, 0.00350332315567, 0.492007038039, 0.0797021037983, 0.216391344658,
      -0.257348751305, 0.553877915705, -1.50099983508, -0.0392895246341}},
    {{0.178757781175, -0.119070335582, 0.368161051445, -0.0438619261769, 0.119844368658,
      -0.380452380805, 0.379596162762, -1.59719153033, -0.325752160634},
     {0.274860464843, 0.00350332315567, 0.492007038039, 0.0797021037983, 0.216391344658,
      -0.257348751305, 0.553877915705, -1.50099983508, -0.0392895246341},
     {0.370963148511, 0.126076981894, 0.615853024634, 0.203266133774, 0.312938320658,
      -0.134245121805, 0.728159668648, -1.40480813982, 0.247173111366}},
    {{0.130706439342, -0.180357164951, 0.306238058148, -0.105643941165, 0.0715708806578,
      -0.442004195555, 0.29245528629, -1.64528737796, -0.468983478634},
     {0.226809123009, -0.0577835062133, 0.430084044742, 0.0179200888107, 0.168117856658,
      -0.318900566055, 0.466737039233, -1.54909568271, -0.182520842634},
     {0.322911806677, 0.0647901525247, 0.553930031336, 0.141484118786, 0.264664832658,
      -0.195796936555, 0.641018792176, -1.45290398745, 0.103941793366},
     {0.419014490344, 0.187363811263, 0.677776017931, 0.265048148761, 0.361211808658,
      -0.0726933070554, 0.815300545119, -1.35671229219, 0.390404429366}}};

constexpr auto over_ring_graph = [](threads comm) { return gossip{comm, topologies::ring{}}; };

}  // namespace

TEST_CASE_TEMPLATE(
    "local_steps of lars and lamb are post-local: ratios, moments and decay of a rank", P, fp64,
    fp32) {
  reaches<P>(local_steps{lars{.weight_decay = 0.01, .trust_coefficient = 0.02}, 2, 2},
             {1, 1, 0.5, 0.5, 0.25}, of_lars, over_mean);
  reaches<P>(local_steps{lamb{}, 2, 2}, {0.01, 0.01, 0.005, 0.005, 0.0025}, of_lamb, over_mean);
}

TEST_CASE("outer_momentum over local steps of sgd is DiLoCo, and SlowMo") {
  const local_steps inner{sgd{.weight_decay = 0.01}, 2};
  reaches<fp64>(outer_momentum{inner}, {0.1, 0.1, 0.1, 0.1, 0.05}, of_diloco, over_mean);
  reaches<fp64>(
      outer_momentum{
          inner,
          {.momentum = 0.5, .learning_rate = 1, .nesterov = false, .per_learning_rate = true}},
      {0.1, 0.1, 0.05, 0.05, 0.05}, of_slowmo, over_mean);
}

TEST_CASE("outer_momentum of two fragments, half a period apart, whatever the buckets") {
  // Buckets of a tensor each, and in `reaches` the same; W1, b1 | W2, b2.
  const outer_momentum fragments{local_steps{sgd{.weight_decay = 0.01}, 4},
                                 {.fragments = 2, .fragment_numbers = 128}};
  const std::vector<double> rates(9, 0.1);
  reaches<fp64>(fragments, rates, of_fragments, over_mean);
  const auto whole = on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 1)};
    trainer run{model, fragments, learning_rates(rates), ring{comm}};  // one bucket
    for (std::size_t k = 0; k < rates.size(); ++k)
      run.step(std::array{one_each(3)}, static_cast<double>(k));
    t4_numbers out{};
    auto to = out.begin();
    for (std::size_t k = 0; k < 4; ++k)
      for (const double w : numbers(run.weights(), k)) *to++ = w;
    return out;
  });
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < whole[r].size(); ++i)
      CHECK(close(whole[r][i], of_fragments[1][r][i], 1e-10));
}

TEST_CASE("outer_momentum over a rounding mean: what a fragment still owes is not lost") {
  // One bucket of both fragments: in step 3, of W1 and b1, residuals of W2 and b2 are sent with it.
  struct owed {
    std::vector<double> before, after;  // of W2, b2, by number: a - w + residual
  };
  const auto outer = [](const auto& optimizer, int shift) {
    return on_ranks(3, [&](threads comm) {
      quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 1)};
      trainer run{model, optimizer, [&](double epoch) { return epoch < 3 ? 0.1 : 0; },
                  compressed{ring{comm}, fp16{}}};
      const auto sums = [&] {
        std::vector<double> all;
        for (const std::size_t k : {2u, 3u}) {
          const auto w = numbers(run.weights(), k), a = numbers(run.slot(1), k),
                     e = numbers(run.reducer_slot(0), k);
          for (std::size_t i = 0; i < w.size(); ++i) all.push_back(a[i] - w[i] + e[i]);
        }
        return all;
      };
      owed out;
      for (int k = 0; k < 4 + shift; ++k) {
        if (k == 3) out.before = sums();
        run.step(std::array{one_each(3)}, k);
      }
      out.after = sums();
      return out;
    });
  };
  const outer_momentum fragments{local_steps{sgd{}, 4}, {.fragments = 2, .fragment_numbers = 128}};
  const auto is_kept = [](const auto& ranks) {
    for (std::size_t i = 0; i < ranks[0].before.size(); ++i) {
      double before = 0, after = 0;
      for (const auto& one : ranks) before += one.before[i], after += one.after[i];
      CHECK(std::abs(after - before) <
            3 * 8 * 0x1p-52);                          // of numbers below 2, some eight roundings
      CHECK(ranks[0].before[i] != ranks[0].after[i]);  // something was sent
    }
  };
  is_kept(outer(fragments, 0));
  is_kept(outer(overlapped{fragments, 1}, 1));
}

TEST_CASE("outer_momentum of two fragments sends each in its own step") {
  const auto sent = on_ranks(2, [&](threads comm) {
    traffic t;
    quadratic<fp64> model{};
    trainer run{model,
                outer_momentum{local_steps{sgd{}, 4}, {.fragments = 2, .fragment_numbers = 128}},
                constant{0.1},
                ring{counting_communicator{comm, &t}},
                {.bucket_bytes = 1024}};  // 128 numbers
    std::vector<std::size_t> bytes;
    for (int k = 0; k < 8; ++k) {
      t = {};
      run.step(std::array{one_each(2)}, k);
      bytes.push_back(t.bytes);
    }
    return bytes;
  });
  // Other messages of a step are as many in each.
  const std::size_t none = sent[0][0];
  for (std::size_t k = 0; k < 8; ++k) {
    CAPTURE(k);
    const std::size_t numbers = k % 2 == 1 ? 128 : 0;  // of two ranks in a ring: n each
    CHECK(sent[0][k] == none + 8 * numbers);
  }
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
