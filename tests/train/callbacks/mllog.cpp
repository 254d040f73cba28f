// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/early_stopping.hpp>
#include <cordee/train/callbacks/mllog.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/foreign_locale.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// "key" of each line, with its value unless that is null, and status.
std::string keys(const std::string& path) {
  std::ifstream in(path);
  std::string out;
  const auto field = [](const std::string& line, const std::string& name) {
    const std::size_t at = line.find("\"" + name + "\": ");
    if (at == std::string::npos) return std::string("null");
    const std::size_t begin = at + name.size() + 4;
    return line.substr(begin, line.find_first_of(",}", begin) - begin);
  };
  for (std::string line; std::getline(in, line);) {
    CHECK(line.rfind(":::MLLOG {\"namespace\": \"\", \"time_ms\": ", 0) == 0);
    out += out.empty() ? "" : " ";
    out += field(line, "key").substr(1);
    out.pop_back();
    for (const char* name : {"value", "epoch_num", "status"})
      if (field(line, name) != "null") out += "=" + field(line, name);
  }
  return out;
}

/// A model that finds 17 of 21 samples: four in five.
struct apt_model : quadratic<fp64> {
  [[nodiscard]] metrics read_metrics(cpu::stream) const {
    return {loss, 17 * samples / 21, 17 * samples / 21, samples};
  }
};

/// Steps up to `epochs` of ten steps each, with lars; rank 0 alone uses the callbacks.
template <class... Callbacks>
void apt_run(double first_epoch, double epochs, int patience, Callbacks&&... callbacks) {
  on_ranks(2, [&](threads comm) {
    apt_model model;
    trainer run{model, lars{}, constant{.learning_rate = 0.05}, ring{comm}};
    toy_loader feed{.rank_count = 2, .next_step = static_cast<std::int64_t>(10 * first_epoch)};
    run.fit(feed, epochs, validation{toy_data{42}, 250}, early_stopping{.patience = patience},
            callbacks...);
    return 0;
  });
}

const std::string header =
    "submission_benchmark=\"resnet\" submission_org=\"unknown\" submission_platform=\"unknown\" "
    "submission_division=\"open\" submission_status=\"research\" cache_clear=false init_start "
    "seed=0 global_batch_size=2 gradient_accumulation_steps=1 train_samples=20 eval_samples=42 "
    "lars_opt_momentum=0.9 lars_opt_weight_decay=0.0001 lars_epsilon=0 opt_name=\"lars\" "
    "init_stop run_start";

std::string epoch_lines(int k) {
  const std::string n = "=" + std::to_string(k);
  return " epoch_start" + n + " epoch_stop" + n + " lr=0.05" + n + " eval_start" + n +
         " eval_stop" + n + " eval_accuracy=0.80952380952381" + n;
}

}  // namespace

TEST_CASE("mllog: the lines of a run, in the order of MLPerf's rules") {
  const folder here;
  const char* const named = std::getenv("CORDEE_MLLOG_FILE");  // tests/scripts/mlperf_checker.py
  const std::string file = named != nullptr ? named : here.file("log");
  detail::train::mllog_options options;
  if (named != nullptr)
    options =
        detail::train::mllog_options{.organization = "a \"quoted\" name\\",
                                     .division = "closed",
                                     .status = "onprem",
                                     .target_accuracy = 0.759,
                                     .values = {{"lars_opt_base_learning_rate", 0.05},
                                                {"lars_opt_end_learning_rate", 0.0001},
                                                {"lars_opt_learning_rate_decay_poly_power", 2},
                                                {"lars_opt_learning_rate_decay_steps", 20},
                                                {"lars_opt_learning_rate_warmup_epochs", 0},
                                                {"opt_learning_rate_warmup_epochs", 0},
                                                {"model_bn_span", 1}}};
  apt_run(0, 2, 99, mllog{file, options});
  if (named == nullptr)
    CHECK(keys(file) == header + epoch_lines(1) + epoch_lines(2) + " run_stop=\"success\"");
}

TEST_CASE("mllog: run_stop's status says whether the target was reached, or the run aborted") {
  const folder here;
  const std::string file = here.file("log");
  const auto status = [&](double target, int patience) {
    apt_run(0, 3, patience, mllog{file, {.target_accuracy = target}});
    const std::string text = keys(file);
    return text.substr(text.find(" run_stop=") + 10);
  };
  CHECK(status(0.8, 9) == "\"success\"");
  CHECK(status(0.82, 9) == "\"aborted\"");
  CHECK(status(0, 9) == "\"success\"");
  CHECK(status(0, 1) == "\"aborted\"");  // after two epochs
  CHECK(count(keys(file), "epoch_start") == 2);
  CHECK(status(0.8, 1) == "\"success\"");
  for (const double never : {std::nan(""), -0.1, 75.9})
    CHECK_THROWS_WITH_AS(status(never, 9), doctest::Contains("mllog: .target_accuracy is"), error);
}

TEST_CASE("mllog: a resumed run goes on with the log as if nothing had happened") {
  const folder here;
  const std::string file = here.file("log");
  const std::string whole = header + epoch_lines(1) + epoch_lines(2) + epoch_lines(3);
  apt_run(0, 1.5, 99, mllog{file});  // ends in the middle of an epoch, which that evaluates
  for (const double first : {1.0, 0.7, 0.0}) {
    apt_run(first, 3, 99, mllog{file});
    CHECK(keys(file) == whole + " run_stop=\"success\"");
  }
  apt_run(3, 4, 99, mllog{file});  // goes on after the end
  CHECK(keys(file) == whole + epoch_lines(4) + " run_stop=\"success\"");
  std::filesystem::remove(file);
  apt_run(2.5, 3, 99, mllog{file});  // a log of its own
  CHECK(keys(file) == header + epoch_lines(3) + " run_stop=\"success\"");
  { std::ofstream(file) << "step,loss\n"; }
  CHECK(contains(error_message([&] { apt_run(1, 2, 99, mllog{file}); }), "mllog: "));
  CHECK(contents(file) == "step,loss\n");
}

TEST_CASE("mllog: a run that is resumed with a grown batch has the start of its epoch") {
  const folder here;
  const auto log = [&](std::initializer_list<double> ends) {
    const std::string file = here.file("log");
    std::filesystem::remove(file);
    growing_loader feed{{}, 0.1};  // the third epoch's first update begins at 2.1
    for (const double end : ends) {
      apt_model model;
      trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
      run.fit(feed, end, mllog{file});
    }
    return keys(file);
  };
  const std::string whole = log({3.1});
  CHECK(count(whole, "epoch_start=3") == 1);
  CHECK(log({2.1, 3.1}) == whole);
  CHECK(count(log({1.5, 3.1}), "epoch_start=2") == 1);  // goes on inside of it
}

TEST_CASE("mllog: without a validation epochs have no evaluation; a further fit is a further run") {
  const folder here;
  const std::string file = here.file("log");
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  toy_loader feed;
  mllog log{file};
  run.fit(feed, 1, log);
  run.fit(feed, 2, log);
  const std::string text = keys(file);
  CHECK(count(text, "eval_start") == 0);
  CHECK(count(text, "epoch_start=1 epoch_stop=1 lr=0.05=1 run_stop") == 1);
  CHECK(count(text, "run_start epoch_start=2 epoch_stop=2 lr=0.05=2 run_stop") == 1);
  CHECK(count(text, "eval_samples=0") == 2);
}

TEST_CASE("mllog: a fit that ended within an epoch leaves nothing to a further one") {
  const folder here;
  mllog log{here.file("log")};
  step_record large = record_of(0);
  large.train.count = 1024;
  log.begin({});
  log.step(large);
  log.end({.steps = 1});
  log.begin({.first_step = 1});
  log.step(record_of(1));
  log.epoch({record_of(1)});  // and then it throws
  log.begin({.first_step = 2});
  log.step(record_of(2));
  log.end({.steps = 1});
  const std::string text = contents(here.file("log"));
  CHECK(count(text, "\"global_batch_size\": 8}") == 1);
  CHECK(count(text, "epoch_start") == 0);  // which begin_on_all_ranks writes
}

TEST_CASE(
    "mllog: the hyper-parameters of optimizers and of those inside wrappers, by MLPerf's names") {
  const folder here;
  const auto lines = [&](const auto& optimizer) {
    quadratic<fp64> model;
    trainer run{model, optimizer, constant{.learning_rate = 0.05}, solo{}};
    toy_loader feed;
    run.fit(feed, 0.1, mllog{here.file("log")});
    const std::string text = keys(here.file("log"));
    const std::size_t begin = text.find("eval_samples=0 ") + 15;
    return text.substr(begin, text.find(" init_stop") - begin);
  };
  CHECK(lines(sgd{.momentum = 0.5}) ==
        "sgd_opt_momentum=0.5 sgd_opt_weight_decay=0 opt_name=\"sgd\"");
  CHECK(lines(clip{lars_unscaled{}, 1.0}) ==
        "lars_opt_momentum=0.9 lars_opt_weight_decay=0.0001 lars_epsilon=1e-05 opt_name=\"lars\"");
  CHECK(lines(lamb{}) ==
        "opt_lamb_beta_1=0.9 opt_lamb_beta_2=0.999 opt_lamb_epsilon=1e-06 "
        "opt_lamb_weight_decay_rate=0.01 opt_name=\"lamb\"");
  CHECK(contains(lines(adamw{.weight_decay = 0.25}),
                 "opt_adamw_weight_decay=0.25 opt_name=\"adamw\""));
}

TEST_CASE("mllog: a file that cannot be written is an error before the first step") {
  const std::string text = error_message([] { apt_run(0, 1, 99, mllog{"/nowhere/at/all"}); });
  CHECK(contains(text, "mllog: cannot open \"/nowhere/at/all\""));
  CHECK(contains(text, "name a file in a folder that exists"));
  std::int64_t steps = 0;
  if (std::filesystem::exists("/dev/full"))
    CHECK(contains(
        error_message([&] { apt_run(0, 1, 99, mllog{"/dev/full"}, step_counter{&steps}); }),
        "mllog: cannot write \"/dev/full\""));
  else
    support::skip("no /dev/full, a file that is always full");
  CHECK(steps == 0);
}

TEST_CASE("mllog: an epoch's stop has the global batch, which may grow") {
  const folder here;
  const std::string file = here.file("log");
  quadratic<fp64> model;
  trainer run{model, lars{.trust_coefficient = 0.02}, constant{0.05}, solo{}};
  loader feed{toy_data{24}, rank_stub{}, {.global_batch = 6, .batch_schedule = {{{2, 2}, {3, 4}}}}};
  run.fit(feed, 4, mllog{file});
  std::string batches;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (contains(line, "\"epoch_stop\""))
      batches += line.substr(line.find("\"global_batch_size\": ")) + '\n';
  CHECK(batches ==
        "\"global_batch_size\": 6}}\n\"global_batch_size\": 6}}\n\"global_batch_size\": 12}}\n"
        "\"global_batch_size\": 24}}\n");
}

TEST_CASE("mllog: an application's locale changes no number") {
  const folder here;
  const foreign_locale german;
  apt_run(0, 2, 99, mllog{here.file("log"), {.target_accuracy = 0.759}});
  CHECK(keys(here.file("log")) ==
        header + epoch_lines(1) + epoch_lines(2) + " run_stop=\"success\"");
}
