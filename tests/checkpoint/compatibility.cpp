// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/compatibility.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/cross_entropy.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

namespace {

struct own_model {};
/// As much of a network.
struct dropping_model {
  cross_entropy loss{};
  double dropout_rate = 0, freeze_batch_norm_at = HUGE_VAL;
};

/// As much of a trainer as is compared.
template <class O, class S, class M = own_model, class P = fp32>
struct described_run {
  using model_type = M;
  using Real = float;
  using precision = P;
  using device = cpu;
  static constexpr bool weights_differ = O::needs != agreement::exact;
  O optimizer_value;
  S schedule_value;
  trainer_options options_value{};
  solo reducer_value{};
  std::int64_t steps = 7;
  M model_value{};

  const M& model() const { return model_value; }
  const O& optimizer() const { return optimizer_value; }
  const S& schedule() const { return schedule_value; }
  const solo& reducer() const { return reducer_value; }
  const auto& comm() const { return reducer_value.comm; }
  const trainer_options& options() const { return options_value; }
  std::int64_t steps_taken() const { return steps; }
  static constexpr std::span<const segment> segments() { return {}; }
};
template <class O, class S>
described_run(O, S) -> described_run<O, S>;
template <class O, class S>
described_run(O, S, trainer_options) -> described_run<O, S>;

constexpr auto tenth = [](double) { return 0.1; };
detail::train::run_state trained() {
  detail::train::run_state s;
  s.progress =
      detail::train::progress{.step = 7, .applied = 7, .epoch = 2, .previous_learning_rate = 0.1};
  return s;
}

/// What is printed when `now` continues a checkpoint of `before`, or the message of the refusal.
template <class A, class B>
std::string continued(A before, B now) {
  std::string text;
  const std::string message = error_message(
      [&] { text = expect_compatible(describe_run(before), trained(), now, "runs/a"); });
  return message.empty() ? text : message;
}

}  // namespace

TEST_CASE("compatibility: options of the optimizer may change, and are printed") {
  const auto changed = [](auto before, auto now) {
    return continued(described_run{before, tenth}, described_run{now, tenth});
  };
  CHECK(changed(sgd{}, sgd{}) == "");
  CHECK(changed(sgd{.weight_decay = 1e-4}, sgd{.weight_decay = 5e-5}) ==
        "resume: options of the optimizer: weight decay 0.0001 -> 5e-05\n");
  CHECK(changed(sgd{}, sgd{.momentum = 0.8, .nesterov = true}) ==
        "resume: options of the optimizer: momentum 0.9 -> 0.8 (Nesterov)\n");
  CHECK(changed(sgd{.dampening = 0.5}, sgd{}) ==
        "resume: options of the optimizer: dampening 0.5 -> nothing\n");
  CHECK(changed(sgd{}, sgd{.decay_on = kind::weight | kind::bias})
            .starts_with("resume: options of the optimizer: "));
  CHECK(changed(adamw{}, adamw{.beta2 = 0.95, .weight_decay = 0.5}) ==
        "resume: options of the optimizer: betas 0.9 and 0.999 -> 0.9 and 0.95, decoupled weight "
        "decay 0.01 -> 0.5\n");
  CHECK(changed(local_steps{sgd{}, 8}, local_steps{sgd{}, 4}) ==
        "resume: options of the optimizer: weights averaged every 8 steps -> 4 steps\n");
  CHECK(changed(clip{sgd{}, 1}, clip{sgd{}, 2}) ==
        "resume: options of the optimizer: gradients clipped to norm 1 -> 2\n");
}

TEST_CASE("compatibility: options that differ in the last digits are printed, with all digits") {
  const described_run before{sgd{.momentum = 0.9}, tenth};
  const described_run now{sgd{.momentum = 0.9000001}, [](double) { return 0.1000000001; }};
  const std::string changes =
      "resume: options of the optimizer: momentum 0.9 -> 0.9000001\n"
      "resume: learning rate at epoch 2 0.1 -> 0.1000000001\n";
  CHECK(continued(before, now) == changes);
  CHECK(continued(now, now) == "resume: learning rate at epoch 2 0.1 -> 0.1000000001\n");
}

TEST_CASE("compatibility: texts of an older version, of six digits, are compared as such") {
  described_run now{sgd{.momentum = 1 / 3.0}, tenth};
  nlohmann::json older = describe_run(now);
  CHECK(contains(older.at("optimizer").get<std::string>(), "momentum 0.3333333333333333,"));
  older.erase("exact_numbers");
  older["optimizer"] = now.optimizer().describe();
  REQUIRE(contains(older.at("optimizer").get<std::string>(), "momentum 0.333333,"));
  expect_description(older);
  CHECK(expect_compatible(older, trained(), now, "runs/a") == "");
  now.optimizer_value.momentum = 0.25;
  CHECK(expect_compatible(older, trained(), now, "runs/a") ==
        "resume: options of the optimizer: momentum 0.333333 -> 0.25\n");
  older["exact_numbers"] = "yes";
  CHECK_THROWS(expect_description(older));
}

TEST_CASE("compatibility: another type of optimizer is refused, with both descriptions") {
  const auto refused = [](auto before, auto now) {
    return continued(described_run{before, tenth}, described_run{now, tenth});
  };
  CHECK(contains_all(refused(sgd{}, adamw{}),
                     {"runs/a does not fit this run: its optimizer is sgd, momentum 0.9",
                      "this run's is adamw, betas", ": go on with what was saved"}));
  CHECK(contains_all(refused(sgd{}, velocity_sgd{}), {"does not fit", "velocity_sgd"}));
  CHECK(contains_all(refused(lars{}, lars_lr_outside{}), {"does not fit", "lars_lr_outside"}));
  CHECK(contains_all(refused(sgd{}, clip{sgd{}, 1}), {"does not fit", "clipped"}));
  CHECK(contains_all(refused(local_steps{sgd{}, 2}, local_steps{adamw{}, 2}), {"does not fit"}));
  // without a description by their types
  struct first_of_two : sgd {
    std::string describe() const { return "mine"; }
  };
  struct second_of_two : sgd {
    std::string describe() const { return "mine"; }
  };
  CHECK(contains_all(refused(first_of_two{}, second_of_two{}),
                     {"its optimizer_type is ", "first_of_two", "second_of_two"}));
}

TEST_CASE("compatibility: an older version's name of 3, 5, 6, 7 and 8 bits is that of each") {
  const auto resumed = [&](const char* saved, auto precision) {
    auto run = described_run<sgd, decltype(tenth), own_model, decltype(precision)>{{}, tenth};
    auto description = describe_run(run);
    description["precision"] = saved;
    return error_message([&] { (void)expect_compatible(description, trained(), run, "runs/a"); });
  };
  const char* const older = "int8, weights of fewer bits";
  CHECK(resumed(older, low_bit_weights<3>{}) == "");
  CHECK(resumed("int8, weights of 5 bits", low_bit_weights<3>{})
            .starts_with("resume: runs/a does not fit this run: its precision is int8, weights of "
                         "5 bits, this run's is int8, weights of 3 bits"));
  CHECK(resumed(older, low_bit_weights<4>{}) != "");
}

TEST_CASE("compatibility: another learning rate, schedule or option of the trainer is printed") {
  const auto twentieth = [](double) { return 0.05; };
  const described_run before{sgd{}, tenth};
  CHECK(continued(before, described_run{sgd{}, twentieth}) ==
        "resume: learning rate at epoch 2 0.1 -> 0.05\n");
  CHECK(continued(before,
                  described_run{
                      sgd{}, tenth, {.check_finite = false, .loss_scaling = {.interval = 5}}}) ==
        "resume: trainer_options::check_finite true -> false\n"
        "resume: trainer_options::loss_scaling.interval 2000 -> 5\n");
  CHECK(continued(before, described_run{sgd{}, tenth, {.seed = 9}}) == "");
  nlohmann::json older = describe_run(before);
  older["options"].erase("max_nonfinite_share");
  described_run now = before;
  CHECK(expect_compatible(older, trained(), now, "runs/a") == "");
  CHECK(continued(before, described_run{sgd{}, tenth, {.freeze = "conv1"}}) ==
        "resume: trainer_options::freeze none -> conv1\n");
  struct ending {
    double epochs = 30;
    double operator()(double) const { return 0.1; }
    std::string describe() const { return concat("constant for ", epochs, " epochs"); }
  };
  CHECK(continued(described_run{sgd{}, ending{}}, described_run{sgd{}, ending{90}}) ==
        "resume: the schedule was constant for 30 epochs, now it is constant for 90 epochs: the "
        "run goes on, maybe with other bits\n");
}

TEST_CASE(
    "compatibility: another loss, dropout rate or frozen batch norm is printed if it was saved") {
  const auto run_of = [](const dropping_model& model) {
    return described_run<sgd, decltype(tenth), dropping_model>{sgd{}, tenth, {}, {}, 7, model};
  };
  const auto changed = [&](const dropping_model& before, const dropping_model& now) {
    return continued(run_of(before), run_of(now));
  };
  CHECK(changed({{}, 0.5, 3}, {{}, 0.5, 3}) == "");
  const auto loss = [](double smoothing) { return dropping_model{{.label_smoothing = smoothing}}; };
  CHECK(changed(loss(0), loss(0.25)) == concat("resume: network::loss ", loss(0).loss.describe(),
                                               " -> ", loss(0.25).loss.describe(), "\n"));
  CHECK(changed({}, {{}, 0.5}) == "resume: network::dropout_rate 0.0 -> 0.5\n");
  CHECK(changed({}, {{}, 0, 3}) == "resume: network::freeze_batch_norm_at inf -> 3.0\n");

  auto now = run_of({{.label_smoothing = 0.25}, 0.5, 3});
  nlohmann::json older = describe_run(now);
  older.erase("model");
  expect_description(older);
  CHECK(expect_compatible(older, trained(), now, "runs/a") == "");
  older["model"] = nlohmann::json::object();  // of a model without such members
  CHECK(expect_compatible(older, trained(), now, "runs/a") == "");
  older["model"] = 7;
  CHECK_THROWS(expect_description(older));
}

TEST_CASE("compatibility: phrases of a description are names and values") {
  using phrases = std::vector<phrase>;
  CHECK(phrases_of("sgd, momentum 0.9 (Nesterov), weight decay 0; decays weight, bias") ==
        phrases{{"sgd", ""},
                {"momentum", "0.9 (Nesterov)"},
                {"weight decay", "0"},
                {"decays weight, bias", ""}});
  CHECK(phrases_of("x2 with 3") == phrases{{"x2 with", "3"}});
  CHECK(phrases_of("").empty());
  CHECK(phrases_of(";,").size() == 2);
  CHECK(describe_changes("a 1, a 2", "a 2, a 3") == "a 1 -> 3");
  CHECK(describe_changes("a, b", "b, c") == "a -> c");
}
