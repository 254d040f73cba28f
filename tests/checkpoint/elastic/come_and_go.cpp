// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run over ZeroMQ whose processes are killed and joined at random moments, as many times as the
// first argument says, by the seed in the second one. Sums are exact in any order (exact_sums.hpp):
// at the end every process has the bits of a run of one rank that nothing happened to, and each
// update has trained on its samples, none lost and none twice, or the program fails. So it does
// where a step takes longer than `patience`.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordee/checkpoint/memory_checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/comm/transports/zeromq.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/checkpoint/exact_sums.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/reserved_port.hpp"

namespace {

using namespace cordee;
using namespace support::exact;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

constexpr int first_ranks = 4, fewest = 3, most = 6, most_weights = 512;
constexpr auto deadline = 4s, patience = deadline + 2s;

/// In memory that all processes share: what a killed one has written stays.
struct shown {
  std::atomic<std::int64_t> step{0}, worlds{0};  // completed; formed
  std::atomic<int> size{0};                      // of the present world
  std::atomic<int> correct{0};                   // processes that ended with the expected bits
  std::size_t count = 0;
  std::array<double, most_weights> expected{};
};

constexpr auto falling = [](double epoch) { return 0.05 / (1 + epoch); };

/// Shows each completed step, and pauses on every rank, so that events meet each part of a step.
struct reporter {
  shown* all;
  void step(const step_record& r) { all->step = r.info.step + 1; }
  template <class Run>
  bool step_on_all_ranks(Run&, double) {
    std::this_thread::sleep_for(500us);
    return false;
  }
};

/// The weights after so many steps.
template <class Communicator, class... Callbacks>
std::vector<double> trained(const Communicator& comm, std::int64_t steps, memory_checkpoint& kept,
                            Callbacks&&... callbacks) {
  exact_sums<fp64> model;
  trainer run{model, sgd{.momentum = 0.9}, falling, ring{comm}, {.check_stability = false}};
  kept.resume(run);
  auto feed = enumerated_feed(comm);
  run.fit(feed, feed.epoch(steps), callbacks..., kept);
  const auto w = run.weights();
  return {w.begin(), w.end()};
}

/// A process: a first rank, or one that joins. Returns its exit status.
int process(int rank, const std::string& path, std::int64_t steps, shown& all) {
  ::alarm(600);
  memory_checkpoint kept;
  std::vector<double> weights;
  try {
    zeromq::launch(
        [&](zeromq comm) {
          if (comm.rank() == 0) {
            all.size = comm.size();
            ++all.worlds;
          }
          weights = trained(comm, steps, kept, reporter{&all});
        },
        {.deadline = deadline,
         .elastic = elastic{.smallest = 2, .rendezvous = path, .joins = rank < 0, .settle = 0ms}});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "process %d: %s\n", static_cast<int>(::getpid()), e.what());
    return 1;
  }
  const bool same = weights.size() == all.count && std::memcmp(weights.data(), all.expected.data(),
                                                               all.count * sizeof(double)) == 0;
  if (!same) std::fprintf(stderr, "process %d: wrong weights\n", static_cast<int>(::getpid()));
  all.correct += same;
  return same ? 0 : 1;
}

class world {
 public:
  world(std::string path, std::int64_t steps, shown& all)
      : path_(std::move(path)), steps_(steps), all_(all) {
    for (int rank = 0; rank < first_ranks; ++rank) start(rank, master_.port);
  }
  void start(int rank, int port = 0) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      if (rank >= 0) {
        ::setenv("RANK", concat(rank).c_str(), 1);
        ::setenv("WORLD_SIZE", concat(first_ranks).c_str(), 1);
        ::setenv("MASTER_ADDR", "127.0.0.1", 1);
        ::setenv("MASTER_PORT", concat(port).c_str(), 1);
      }
      std::_Exit(process(rank, path_, steps_, all_));
    }
    live_.push_back(child);
  }
  void kill(std::size_t index) {
    ::kill(live_[index], SIGKILL);
    ::waitpid(live_[index], nullptr, 0);
    live_.erase(live_.begin() + static_cast<long>(index));
  }
  [[nodiscard]] std::size_t size() const { return live_.size(); }
  /// Whether one has ended by itself.
  [[nodiscard]] bool has_lost() const {
    return std::ranges::any_of(live_, [](pid_t p) {
      siginfo_t info{};
      return ::waitid(P_PID, static_cast<id_t>(p), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
             info.si_pid != 0;
    });
  }
  /// Waits for all. Returns how many failed.
  int finish() {
    int failed = 0;
    for (const pid_t p : live_) {
      int status = 0;
      ::waitpid(p, &status, 0);
      failed += status != 0;
    }
    live_.clear();
    return failed;
  }
  ~world() {
    for (const pid_t p : live_) ::kill(p, SIGKILL);
    (void)finish();
  }

 private:
  const std::string path_;
  const std::int64_t steps_;
  shown& all_;
  const support::reserved_port master_;
  std::vector<pid_t> live_;
};

int run(int events, unsigned seed) {
  auto* const memory =
      ::mmap(nullptr, sizeof(shown), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw error("no shared memory");
  shown& all = *new (memory) shown;
  const std::int64_t steps = std::max(200, 12 * events);
  const pid_t alone = ::fork();  // the loader's threads stay in that process
  if (alone == 0) {
    memory_checkpoint kept;
    const std::vector<double> w = trained(self_comm{}, steps, kept);
    if (w.size() <= most_weights) std::copy(w.begin(), w.end(), all.expected.begin());
    all.count = w.size();
    std::_Exit(0);
  }
  ::waitpid(alone, nullptr, 0);
  if (all.count == 0 || all.count > most_weights) throw error("no expected weights");

  const support::folder files;
  std::mt19937 random(seed);
  world w(files.file("run"), steps, all);
  int kills = 0, joins = 0;
  std::int64_t longest = 0;
  const auto await = [&](const auto& condition, const char* what) {
    for (const auto start = clock_type::now(); !condition(); std::this_thread::sleep_for(200us)) {
      const auto waited = (clock_type::now() - start) / 1ms;
      longest = std::max<std::int64_t>(longest, waited);
      if (w.has_lost()) throw error(concat("a process has ended by itself, ", what));
      if (clock_type::now() - start > patience) throw error(concat("waited too long ", what));
    }
  };
  await([&] { return all.step > 0; }, "for the first step");
  for (int event = 0; event < events; ++event) {
    const std::int64_t due = steps * event / (events + 2);
    await([&] { return all.step >= due; }, "for steps");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    const bool joins_now = static_cast<int>(w.size()) <= fewest ||
                           (static_cast<int>(w.size()) < most && random() % 2 == 0);
    // A second one before the ranks have met: a majority of those before is left.
    const bool twice = w.size() >= 5 && random() % 4 == 0;
    const std::int64_t formed = all.worlds;
    if (joins_now) {
      w.start(-1);
      ++joins;
    } else {
      w.kill(random() % w.size());
      ++kills;
      if (twice) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
        w.kill(random() % w.size());
        ++kills;
        ++event;
      }
    }
    await([&] { return all.worlds > formed && all.size == static_cast<int>(w.size()); },
          joins_now ? "for a new rank" : "after a loss");
  }
  const int ranks = static_cast<int>(w.size());
  const int failed = w.finish();
  std::printf(
      "%d kills, %d joins, %lld worlds, %lld steps; %d of %d ranks have the bits of one rank "
      "without events; longest wait %lld ms\n",
      kills, joins, static_cast<long long>(all.worlds), static_cast<long long>(all.step),
      all.correct.load(), ranks, static_cast<long long>(longest));
  return failed == 0 && all.correct == ranks && all.step == steps ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw cordee::error("usage: come_and_go EVENTS SEED");
    return run(std::atoi(argv[1]), static_cast<unsigned>(std::atoi(argv[2])));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "come_and_go: %s\n", e.what());
    return 1;
  }
}
