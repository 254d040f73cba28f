// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Decay, trust ratio and moments of optimizers whose ranks have weights of their own, through the
// whole trainer: T4 on four ranks whose optima differ. The vectors are of
// tests/support/optimizer_goldens.py; those without decay and ratio are in
// goldens_decentralized.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/goldens.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Weights of T4 by rank, after a step at each of the learning rates.
template <class P, class O, class Make>
auto trained(int ranks, const O& optimizer, const std::vector<double>& rates, const Make& make) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<P> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
    trainer run{model, optimizer, learning_rates(rates), make(comm), {.bucket_bytes = 512}};
    for (std::size_t k = 0; k < rates.size(); ++k)
      run.step(std::array{one_each(ranks)}, static_cast<double>(k));
    t4_vectors out;
    for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(run.weights(), k));
    return out;
  });
}

constexpr auto over_ring = [](threads comm) { return gossip{comm, topologies::ring{}}; };
constexpr auto over_mean = [](threads comm) { return ring{comm}; };

template <class P, class O, class Make = decltype(over_ring)>
void reaches(const O& optimizer, const std::vector<double>& rates,
             const std::array<t4_vectors, 4>& expected, const Make& make = over_ring) {
  const auto by_rank = trained<P>(4, optimizer, rates, make);
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < expected[r][k].size(); ++i) {
        CAPTURE(r);
        CAPTURE(t4_table[k].name);
        CAPTURE(by_rank[r][k][i]);
        CHECK(close(by_rank[r][k][i], expected[r][k][i], golden_tolerance<P>));
      }
}

const std::vector<double> halved{1, 1, 0.5}, falling{0.1, 0.1, 0.05};

const std::array<t4_vectors, 4> over_lars{
    t4_vectors{{0.499222831722, -0.273679688441, 0.730180439024, 0.0617931212189},
               {0.131833333333, -0.0801666666667},
               {0.870532460022, -1.8744927119},
               {-0.157166666667}},
    t4_vectors{{0.497731474696, -0.276928753404, 0.726347400223, 0.0561620827556},
               {0.0490555555556, -0.3485},
               {0.858726939518, -1.87155150258},
               {-0.239944444444}},
    t4_vectors{{0.501255243812, -0.266442023695, 0.728580999555, 0.0658890276745},
               {0.402944444444, 0.2565},
               {0.8879479135, -1.84833860469},
               {0.113944444444}},
    t4_vectors{{0.502040464473, -0.265046134818, 0.731288287614, 0.0691585691829},
               {0.320166666667, -0.0118333333333},
               {0.894282403252, -1.85402490105},
               {0.0311666666667}}};
const std::array<t4_vectors, 4> over_lamb{
    t4_vectors{{0.495998007823, -0.290818963125, 0.774570413357, 0.0878172288987},
               {-0.00715084775979, 0.175652595858},
               {0.96070546323, -1.92010530505},
               {0.0421825303731}},
    t4_vectors{{0.495926902896, -0.287723387302, 0.774506049554, 0.0830742014293},
               {-0.00710407022589, 0.166111901656},
               {0.94589420575, -1.91982502153},
               {0.0420649139629}},
    t4_vectors{{0.503652966155, -0.283028500905, 0.77452236399, 0.0877759963132},
               {0.00843658978886, 0.175731859975},
               {0.96128205133, -1.91948195036},
               {0.05766260628}},
    t4_vectors{{0.503678992697, -0.287673534942, 0.774547687262, 0.090877944265},
               {0.00796170898619, 0.181902734834},
               {0.970566120736, -1.91994340842},
               {0.0576425612453}}};
const std::array<t4_vectors, 4> quasi_global{
    t4_vectors{{0.467363929333, -0.220907145276, 0.402731278683, -0.154226298828},
               {0.0180890416667, 0.0503240833333},
               {0.95541038281, -1.96364778872},
               {0.0309557916667}},
    t4_vectors{{0.4650365585, -0.225573183239, 0.395687499517, -0.16371467105},
               {0.0157616805556, 0.04565825},
               {0.954246373319, -1.9642300915},
               {0.0286284305556}},
    t4_vectors{{0.483018671, -0.190686180461, 0.446485503683, -0.09791622105},
               {0.0337493194444, 0.08055575},
               {0.963377290681, -1.9596290165},
               {0.0466160694444}},
    t4_vectors{{0.480691300167, -0.195352218424, 0.439441724517, -0.107404593272},
               {0.0314219583333, 0.0758899166667},
               {0.96221328119, -1.96021131928},
               {0.0442887083333}}};
const std::array<t4_vectors, 4> quasi_global_nesterov{
    t4_vectors{{0.442365356097, -0.173847189561, 0.207754903069, -0.2490303104},
               {0.0312414047083, -0.0438298199167},
               {0.918766616462, -1.93270410836},
               {0.0161505254583}},
    t4_vectors{{0.437935014551, -0.182845520616, 0.193860406765, -0.268339675472},
               {0.0268114306806, -0.05282614575},
               {0.916556743698, -1.93380920874},
               {0.0117205514306}},
    t4_vectors{{0.471081039189, -0.120151638563, 0.283075562344, -0.155058246922},
               {0.0599764083194, 0.00990183175},
               {0.933615250878, -1.92515411594},
               {0.0448855290694}},
    t4_vectors{{0.466650697643, -0.129149969617, 0.26918106604, -0.174367611994},
               {0.0555464342917, 0.000905505916667},
               {0.931405378114, -1.92625921631},
               {0.0404555550417}}};
const std::array<t4_vectors, 4> while_combining{
    t4_vectors{{0.401191042667, -0.254889494017, 0.03959343335, -0.450425718383},
               {-0.0175083333333, -0.125491666667},
               {0.904291415958, -1.95473615108},
               {-0.0270583333333}},
    t4_vectors{{0.419865499611, -0.221285580128, 0.0851318041833, -0.395197890606},
               {0.00118611111111, -0.0918527777778},
               {0.914143644431, -1.94967542747},
               {-0.00836388888889}},
    t4_vectors{{0.496823289889, -0.0811149995722, 0.275520175017, -0.166836729494},
               {0.0782138888889, 0.0484527777778},
               {0.954387539569, -1.92910637053},
               {0.0686638888889}},
    t4_vectors{{0.515497746833, -0.0475110856833, 0.32105854585, -0.111608901717},
               {0.0969083333333, 0.0820916666667},
               {0.964239768042, -1.92404564692},
               {0.0873583333333}}};

const std::array<t4_vectors, 4> post_local_lars{
    t4_vectors{{0.494232888049, -0.260860999046, 0.660773279742, 0.013927594418},
               {-0.41684, -0.153985},
               {0.719926066639, -1.784979409},
               {-0.582855}},
    t4_vectors{{0.495963611007, -0.25401832762, 0.65794824456, 0.0167706462853},
               {-0.04294, 0.096565},
               {0.72987703833, -1.74880941462},
               {-0.208955}},
    t4_vectors{{0.500705873194, -0.237635944402, 0.655714072124, 0.0272536116706},
               {0.33096, 0.347115},
               {0.782231037467, -1.69898109376},
               {0.164945}},
    t4_vectors{{0.509689764137, -0.216502924007, 0.674576245461, 0.0585841900928},
               {0.70486, 0.597665},
               {0.846307447793, -1.69551177801},
               {0.538845}}};
const std::array<t4_vectors, 4> post_local_lamb{
    t4_vectors{{0.498712986619, -0.293775480014, 0.783847694997, 0.0913738652144},
               {-0.00248377353517, 0.182529456958},
               {0.972543950292, -1.94888472206},
               {0.0474979419512}},
    t4_vectors{{0.498712175972, -0.291337224347, 0.78384707713, 0.0913733559033},
               {-0.00246589152146, 0.182531452705},
               {0.972606034724, -1.94882193517},
               {0.0474989178625}},
    t4_vectors{{0.50115672146, -0.291327922282, 0.783844977771, 0.0913724003526},
               {0.00251405320963, 0.182540143966},
               {0.972625123584, -1.94880303339},
               {0.0524930818893}},
    t4_vectors{{0.501158255883, -0.291328734607, 0.783849126639, 0.0938229146475},
               {0.0025147164742, 0.187540402243},
               {0.980278479106, -1.94879488144},
               {0.0524965207841}}};

}  // namespace

TEST_CASE_TEMPLATE("decentlam_over{lars}: ratio and decay act on each rank's own gradient", P, fp64,
                   fp32) {
  reaches<P>(decentlam_over{lars{.weight_decay = 0.01, .trust_coefficient = 0.02}}, halved,
             over_lars);
}
TEST_CASE_TEMPLATE("decentlam_over{lamb}: second moment, decay and ratio are each rank's own", P,
                   fp64, fp32) {
  reaches<P>(decentlam_over{lamb{}}, falling, over_lamb);
}
TEST_CASE_TEMPLATE("qg_dmsgd is the published method under a falling learning rate", P, fp64,
                   fp32) {
  reaches<P>(qg_dmsgd{.weight_decay = 0.01}, falling, quasi_global);
  reaches<P>(qg_dmsgd{.weight_decay = 0.01, .nesterov = true}, falling, quasi_global_nesterov);
}
TEST_CASE_TEMPLATE("adapt_while_combine{sgd} decays where the rank stood before", P, fp64, fp32) {
  reaches<P>(adapt_while_combine{sgd{.weight_decay = 0.01}}, falling, while_combining);
}

TEST_CASE_TEMPLATE(
    "local_steps of lars and lamb are post-local: ratios, moments and decay of a rank", P, fp64,
    fp32) {
  reaches<P>(local_steps{lars{.weight_decay = 0.01, .trust_coefficient = 0.02}, 2, 2},
             {1, 1, 0.5, 0.5, 0.25}, post_local_lars, over_mean);
  reaches<P>(local_steps{lamb{}, 2, 2}, {0.01, 0.01, 0.005, 0.005, 0.0025}, post_local_lamb,
             over_mean);
}

TEST_CASE("over an exact mean all orders of decentralized SGD are sgd") {
  const sgd plain{.momentum = 0.9, .weight_decay = 0.01};
  const std::vector<double> rates{0.1, 0.1, 0.1, 0.1};
  for (const int ranks : {1, 3, 4}) {
    const auto expected = train_t4<fp64>(ranks, plain, rates);
    const auto check = [&](const auto& optimizer, double tolerance) {
      for (const t4_vectors& weights : trained<fp64>(ranks, optimizer, rates, over_mean))
        for (std::size_t k = 0; k < 4; ++k)
          for (std::size_t i = 0; i < weights[k].size(); ++i)
            CHECK(close(weights[k][i], expected[0][k][i], tolerance));
    };
    check(decentlam{.momentum = 0.9, .weight_decay = 0.01}, 1e-13);
    check(decentlam_over{plain}, 1e-13);
  }
}
