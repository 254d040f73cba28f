// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kills a run (SIGKILL) that saves every other step, at random moments, and lets it go on:
//
//   kill_saves KILLS SEED                        the ranks are threads
//   kill_saves KILLS SEED mpirun -n 2 ranks      they are processes, of which one or all are killed
//
// After each kill
//   - the newest checkpoint is at most one interval older than the one whose saving had begun last;
//   - everything under a final name is whole, and `latest` leads to one of them;
//   - a run resumes from the newest, with the bits of a run that was never killed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/checkpoint/kills/training.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t longest_run = 3000;  // steps; then another one begins
constexpr std::chrono::seconds deadline(30);

void require(bool holds, const std::string& what) {
  if (!holds) throw error(what);
}

struct recorder {
  std::vector<std::vector<float>>* all;
  bool step_on_all_ranks(auto& run, double) {
    if (run.comm().rank() == 0) all->emplace_back(run.weights().begin(), run.weights().end());
    return false;
  }
};

/// Rank 0's weights after each step of a run that is never killed.
std::vector<std::vector<float>> undisturbed_weights() {
  std::vector<std::vector<float>> all(1);
  threads::launch(kills::ranks, [&](threads comm) {
    support::labelled<fp32> model;
    trainer run{model, sgd{.momentum = 0.9}, support::falling, ring{comm}};
    auto feed = support::labelled_feed(comm);
    if (comm.rank() == 0) all[0].assign(run.weights().begin(), run.weights().end());
    run.fit(feed, feed.epoch(longest_run), recorder{&all});
  });
  return all;
}

/// The run, in processes of its own.
class victim {
 public:
  victim(const std::vector<std::string>& launcher, const std::string& runs,
         const std::string& progress_file, kills::progress& shown)
      : shown_(shown), process_(::fork()) {
    require(process_ >= 0, "cannot fork");
    if (process_ == 0) be_it(launcher, runs, progress_file);
  }
  victim(const victim&) = delete;
  victim& operator=(const victim&) = delete;
  ~victim() {
    if (process_ > 0) ::kill(process_, SIGKILL);
  }

  /// Blocks until a step is done. Throws if the run has ended instead.
  void await_step(std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    while (shown_.step < step) {
      int status = 0;
      require(::waitpid(process_, &status, WNOHANG) == 0,
              concat("the run ended by itself before step ", step, ", with wait status ", status));
      require(std::chrono::steady_clock::now() - start < deadline, "the run makes no step");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  /// Kills the ranks in `chosen`, and blocks until all have ended.
  void kill(const std::vector<bool>& chosen) {
    bool any = false;
    for (std::size_t r = 0; r < chosen.size(); ++r)
      if (const pid_t rank = shown_.process[r]; chosen[r] && rank > 0) {
        ::kill(rank, SIGKILL);
        any = true;
      }
    if (!any) ::kill(process_, SIGKILL);  // before its ranks were known
    int status = 0;
    const auto start = std::chrono::steady_clock::now();
    for (pid_t ended = 0; (ended = ::waitpid(process_, &status, WNOHANG)) != process_;) {
      require(ended == 0, "waitpid failed");
      require(std::chrono::steady_clock::now() - start < deadline, "a killed run does not end");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    process_ = -1;
    for (const auto& rank : shown_.process)  // mpirun may end a moment before its ranks
      while (rank > 0 && ::kill(rank, 0) == 0) {
        require(std::chrono::steady_clock::now() - start < deadline, "a rank does not end");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    require(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "a killed run ended with status 0");
  }

 private:
  [[noreturn]] void be_it(const std::vector<std::string>& launcher, const std::string& runs,
                          const std::string& progress_file) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!launcher.empty()) {
      std::vector<std::string> words = launcher;
      words.insert(words.end(), {runs, concat(longest_run), progress_file});
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      const int log = ::open((runs + ".log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    try {
      threads::launch(kills::ranks,
                      [&](threads comm) { kills::train(comm, runs, longest_run, shown_); });
    } catch (const std::exception& e) {
      std::fprintf(stderr, "error: %s\n", e.what());
    }
    ::_exit(1);
  }

  kills::progress& shown_;
  pid_t process_;
};

/// Checks what a kill has left; returns the newest checkpoint's step, 0 if there is none.
std::int64_t check_folder(const std::string& runs, std::int64_t completed) {
  const run_folder all(runs);
  const std::vector<std::int64_t> steps = all.steps();
  const std::int64_t newest = steps.empty() ? 0 : steps.front();
  // Before the last completed step's callbacks all of the step before have returned.
  const std::int64_t begun = (completed - 1) / kills::interval * kills::interval;
  require(newest >= begun - kills::interval,
          concat("the newest checkpoint is of step ", newest, ", that of ", begun, " was begun"));
  for (const std::int64_t step : steps)
    for (int rank = 0; rank < kills::ranks; ++rank) {
      const whole_checkpoint c = read_whole(all.final_path(step), step, rank, kills::ranks);
      require(c.state.progress.step == step, "a checkpoint has another step than its name");
    }
  if (!fs::exists(runs)) return 0;
  for (const auto& entry : fs::directory_iterator(runs)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && !name.ends_with(".partial") && !name.ends_with(".removed"))
      require(std::any_of(steps.begin(), steps.end(),
                          [&](std::int64_t step) { return name == name_of(step); }),
              name + " has a final name");
  }
  const std::string latest = runs + "/latest";
  require(fs::is_symlink(latest) || steps.size() < 2, "of two checkpoints `latest` leads to none");
  if (fs::is_symlink(latest))
    require(fs::exists(latest + "/checksums"), "`latest` leads to no checkpoint");
  return newest;
}

/// Resumes, without a further step.
void check_resume(const std::string& runs, std::int64_t newest,
                  const std::vector<std::vector<float>>& weights) {
  threads::launch(kills::ranks, [&](threads comm) {
    support::labelled<fp32> model;
    trainer run{model, sgd{.momentum = 0.9}, support::falling, ring{comm}};
    require(run.resume(runs) == (newest > 0), "a checkpoint is resumed if there is one");
    require(run.steps_taken() == newest, "the newest checkpoint is resumed");
    const auto& expected = weights.at(static_cast<std::size_t>(newest));
    if (comm.rank() == 0)
      require(std::equal(expected.begin(), expected.end(), run.weights().begin()),
              concat("the weights of step ", newest, " are not those of the undisturbed run"));
  });
}

void kill_saves(int kills, unsigned seed, const std::vector<std::string>& launcher) {
  const support::folder files;
  const std::string runs = files.file("runs"), progress_file = files.file("progress");
  kills::progress& shown = kills::map_progress(progress_file);
  const auto weights = undisturbed_weights();
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  std::int64_t newest = 0, steps = 0, lost = 0, most_lost = 0;
  int with_partial = 0;
  std::chrono::nanoseconds step_time = std::chrono::milliseconds(5);
  for (int k = 0; k < kills; ++k) {
    if (newest > longest_run / 2) {
      fs::remove_all(runs);
      newest = 0;
    }
    shown.step = newest;
    for (auto& rank : shown.process) rank = 0;
    victim run(launcher, runs, progress_file, shown);
    if (below(10) > 0) {  // else it may be killed while it starts
      run.await_step(newest + 1);
      const auto start = std::chrono::steady_clock::now();
      const unsigned further = 1 + below(6);
      run.await_step(newest + 1 + further);
      step_time = (std::chrono::steady_clock::now() - start) / further;
    }
    std::this_thread::sleep_for(step_time * below(1000) / 500);
    const bool everyone = below(2) == 0;
    const unsigned one = below(kills::ranks);
    run.kill({everyone || one == 0, everyone || one == 1});
    const std::int64_t completed = shown.step;
    for (const auto& entry : fs::directory_iterator(files.file("")))
      if (entry.is_directory())
        for (const auto& inner : fs::directory_iterator(entry))
          if (inner.path().string().ends_with(".partial") && inner.is_directory()) ++with_partial;
    steps += completed - newest;
    newest = check_folder(runs, completed);
    check_resume(runs, newest, weights);
    lost += completed - newest;
    most_lost = std::max(most_lost, completed - newest);
  }
  std::printf(
      "%d kills in %lld steps: %lld steps lost, at most %lld at once, with a save every %d; "
      "%d kills were during a save\n",
      kills, static_cast<long long>(steps), static_cast<long long>(lost),
      static_cast<long long>(most_lost), kills::interval, with_partial);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 3, "usage: kill_saves KILLS SEED [LAUNCHER...]");
    kill_saves(std::atoi(argv[1]), static_cast<unsigned>(std::atoi(argv[2])),
               {argv + 3, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
