// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a run: the trainer of the chosen policies, and what is done with it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/cordee.hpp>
#if defined(WITH_MPI)
#include <cordee/comm/mpi.hpp>
#endif

#include "dataset.hpp"
#include "networks.hpp"
#include "optimizers.hpp"
#include "policies.hpp"

namespace train {

inline void print_metrics(const metrics& m) {
  std::printf(
      "validation: loss %s, top-1 %s %%, top-5 %s %% of %lld images\n",
      decimal::fixed(m.mean_loss(), 4).c_str(), decimal::fixed(100 * m.accuracy(), 2).c_str(),
      decimal::fixed(100 * static_cast<double>(m.top5) / static_cast<double>(m.count), 2).c_str(),
      static_cast<long long>(m.count));
}

inline std::string class_name(int label, const std::vector<std::string>& names) {
  const auto k = static_cast<std::size_t>(label);
  return k < names.size() ? names[k] : concat("class ", label);
}

/// A line for each class: how many of its images are recognized, and what they are taken for most.
inline void print_classes(const confusion_matrix& m, const std::vector<std::string>& names) {
  for (int label = 0; label < m.classes(); ++label) {
    int other = -1;
    for (int k = 0; k < m.classes(); ++k)
      if (k != label && m(label, k) > (other < 0 ? 0 : m(label, other))) other = k;
    const auto share = [](const char* name, double x, const char* nothing) {
      char text[40];
      std::snprintf(text, sizeof text, "%s %6s %%", name, decimal::fixed(100 * x, 2).c_str());
      return std::string(std::isnan(x) ? nothing : text);
    };
    std::printf(
        "%-20s %s, %s%s\n", class_name(label, names).c_str(),
        share("recall", m.recall(label), "no images").c_str(),
        share("precision", m.precision(label), "never predicted").c_str(),
        other < 0 ? ""
                  : concat(", ", m(label, other), " taken for ", class_name(other, names)).c_str());
  }
}

/// The most memory that the process has had.
inline double peak_megabytes() {
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

/// The classes of an image, the most probable first.
inline void print_prediction(const std::string& file, const double* probabilities, int classes,
                             const std::vector<std::string>& names) {
  std::vector<int> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return probabilities[a] > probabilities[b]; });
  std::printf("%s:", file.c_str());
  for (int k = 0; k < std::min(classes, 3); ++k) {
    const int label = order[static_cast<std::size_t>(k)];
    std::printf("%s %s %s %%", k == 0 ? "" : ",", class_name(label, names).c_str(),
                decimal::fixed(100 * probabilities[label], 1).c_str());
  }
  std::printf("\n");
}

/// Prints what the images are taken for. Those that cannot be read are reported, and the rest goes
/// on. Returns the exit status.
template <class Run>
int predict_files(Run& run, const settings& s, const data_sources& data) {
  using net = typename Run::model_type;
  constexpr std::size_t size = net::input.size();
  std::vector<std::string> files;
  if (run.comm().rank() == 0) files = image_paths(s.predict);
  const dataset images = open_predictions(files, net::input, net::classes);
  const std::size_t count = files.size();
  std::vector<std::uint8_t> pixels;
  std::vector<std::string> readable;
  std::size_t broken = 0;
  for (std::size_t i = 0; i < count; ++i) {
    pixels.resize((readable.size() + 1) * size);
    try {
      images.read(i, std::span(pixels).last(size));
      readable.push_back(files[i]);
    } catch (const error& e) {
      pixels.resize(readable.size() * size);
      std::fprintf(stderr, "train: not predicted: %s\n", e.what());
      ++broken;
    }
  }
  const auto probabilities = predict(run, pixels, data.norm);  // other ranks have no images
  for (std::size_t i = 0; i < readable.size(); ++i)
    print_prediction(readable[i], &probabilities[i * static_cast<std::size_t>(net::classes)],
                     net::classes, data.class_names);
  if (broken > 0)
    std::fprintf(stderr, "train: %zu of %zu images could not be read\n", broken, count);
  return broken > 0 ? failed : done;
}

/// Ends a dry run after a few updates, which it times.
struct update_timer {
  int updates = 4;
  std::vector<double> ends{};  // seconds since the run began

  void step(const step_record& r) { ends.push_back(r.seconds); }
  template <class Run>
  bool step_on_all_ranks(Run&, double) {
    return --updates == 0;
  }
  /// The first update allocates, so it does not count.
  [[nodiscard]] double seconds_per_update() const {
    return ends.size() < 2 ? 0
                           : (ends.back() - ends.front()) / static_cast<double>(ends.size() - 1);
  }
};

/// Writes settings.ini once nothing refuses the run: a refused one keeps that of the run before.
struct settings_file {
  const settings* s;

  void begin(const run_plan&) const { write_settings(*s); }
};

template <class Run, class Feed>
int fit(Run& run, Feed& feed, const settings& s, const data_sources& data) {
  const auto file = [&](const char* name) { return s.output + "/" + name; };
  const bool trains = !s.dry_run, keeps = trains && !s.output.empty();
  const auto logs = [&](const char* name) {
    return trains && std::find(s.logs.begin(), s.logs.end(), name) != s.logs.end();
  };
  auto timer = callback_if(s.dry_run, [] { return update_timer{}; });
  auto options = callback_if(keeps, [&] { return settings_file{&s}; });
  auto progress = callback_if(trains, [] { return console{}; });
  auto table = callback_if(logs("csv"), [&] { return csv{file("log.csv")}; });
  auto lines = callback_if(logs("jsonl"), [&] { return json_lines{file("log.jsonl")}; });
  auto events = callback_if(logs("tensorboard"), [&] { return tensorboard{file("tensorboard")}; });
  auto mlperf = callback_if(logs("mllog"), [&] {
    return mllog{file("mllog.log"), {.target_accuracy = s.target_accuracy}};
  });
  auto timeline = callback_if(logs("trace"), [&] { return chrome_trace{file("trace.json")}; });
  auto target = callback_if(trains && s.target_accuracy > 0,
                            [&] { return target_accuracy{s.target_accuracy}; });
  auto stopper =
      callback_if(trains && s.patience > 0, [&] { return early_stopping{.patience = s.patience}; });
  auto keeper = callback_if(keeps, [&] { return best{file("best.safetensors")}; });
  auto saver = callback_if(keeps, [&] {
    return checkpoint{.folder = file("checkpoints"),
                      .every = {.minutes = s.checkpoint_minutes, .epochs = s.checkpoint_epochs},
                      .resumed_by = "--resume"};
  });

  const run_summary summary = run.fit(
      feed, s.epochs, validation{data.validation, s.validation_batch, s.decode_threads}, timer,
      options, progress, table, lines, events, mlperf, timeline, target, stopper, keeper, saver);
  const bool early = (stopper.callback && stopper.callback->seen.since >= s.patience) ||
                     (target.callback && target.callback->reached);
  const bool stopped = trains && summary.stopped && !early;
  if (keeps && !stopped) run.save(file("final.safetensors"), {{"network", s.network}});
  if (run.comm().rank() == 0 && s.dry_run) {
    const double seconds = timer.callback->seconds_per_update();
    std::printf(
        "measured       %s s an update, %s s an epoch without validation; the process "
        "has had %s MB\n",
        decimal::general(seconds, 3).c_str(),
        decimal::general(seconds * static_cast<double>(feed.steps(1)), 3).c_str(),
        decimal::fixed(peak_megabytes(), 0).c_str());
  } else if (run.comm().rank() == 0 && summary.last.validation) {
    print_metrics(*summary.last.validation);
    std::printf("input: %s\n", feed.statistics().describe().c_str());
  }
  return stopped ? stopped_by_signal : done;
}

inline std::string comma_separated(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

template <class Net, class Communicator, class Optimizer, class Reducer>
int run_session(const settings& s, const Communicator& comm, const data_sources& data,
                const Optimizer& optimizer, const Reducer& reducer) {
  Net net;
  net.loss = make_loss(s);
  net.dropout_rate = s.dropout;
  loader feed{data.training,
              comm,
              {.global_batch = s.batch,
               .micro_batch = s.batch_per_rank,
               .accumulate = s.accumulate,
               .seed = s.seed,
               .decode_threads = data.photographs ? s.decode_threads : 1},
              compose{pad_crop_flip{.pad = s.pad, .flip = s.flip}, cutout{.size = s.cutout}},
              data.norm,
              chosen_mixing{{.alpha = s.mixup}, {.alpha = s.cutmix}}};
  trainer run{
      net,
      optimizer,
      make_schedule(s, feed.global_batch()),
      reducer,
      {.batch_norm_over = s.batch_norm_over, .seed = s.seed, .freeze = comma_separated(s.freeze)}};
  if (!s.load.empty()) run.load(s.load, {.classifier = !s.new_classifier});
  if (!s.predict.empty()) {
    return predict_files(run, s, data);
  }
  if (s.evaluate) {
    const metrics m = run.evaluate(data.validation, feed.normalization(), s.validation_batch);
    const confusion_matrix confusion =
        confusion_matrix::from(run, data.validation, feed.normalization(), s.validation_batch);
    if (comm.rank() == 0) {
      print_metrics(m);
      print_classes(confusion, data.class_names);
    }
    return done;
  }
  if (comm.rank() == 0) {
    std::printf("%s\nvalidation     %s\n", describe(run, feed, s.epochs).c_str(),
                data.validation.describe().c_str());
    std::fflush(stdout);
  }
  if (s.resume && !s.dry_run && run.resume(s.output + "/checkpoints") && comm.rank() == 0)
    std::printf("resumed: goes on after update %lld\n", static_cast<long long>(run.steps_taken()));
  return fit(run, feed, s, data);
}

/// The trainer's types: those of the optimizer and of the reducer that suits it.
template <class Net, class Communicator>
int run_with_policies(const settings& s, const Communicator& comm, const data_sources& data) {
  return with_optimizer(s, [&](const auto& optimizer) {
    const auto with = [&](const auto& reducer) {
      return run_session<Net>(s, comm, data, optimizer, reducer);
    };
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(optimizer)>, gossip_optimizer>)
      return with(gossip{comm, topologies::ring{}});
    else
      return with(exact_reducer<Communicator>(comm, s.reducer));
  });
}

template <class Net>
int launch_session(const settings& s) {
  const data_sources data = open_sources(s, Net::input, Net::classes);
  int result = done;
  const auto rank = [&](const auto& comm) {
    const int own = run_with_policies<Net>(s, comm, data);
    if (comm.rank() == 0 || s.transport == "mpi") result = own;
  };
  const std::chrono::milliseconds deadline(
      static_cast<std::int64_t>(std::min(1000 * s.deadline, 9e18)));
#if defined(WITH_MPI)
  if (s.transport == "mpi") {
    mpi::launch([&](mpi comm) { rank(comm); }, {.deadline = deadline});
    return result;
  }
#endif
  threads::launch(s.ranks, [&](threads comm) { rank(comm); }, {.deadline = deadline});
  return result;
}

}  // namespace train
