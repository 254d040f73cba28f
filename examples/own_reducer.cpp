// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A reducer of your own: an exact mean in two levels, inside groups and then among their leaders,
// for networks that are fast within a machine and slow between machines. It trains a small network;
// --check tests it by the laws of exact reducers.
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

//   x <- sum over groups of (sum over the ranks of the group of x), divided by p once
//
// exact_method makes it a reducer, and compressed{two_level{…}, fp16{}} another. run() has the
// order of the messages, which sender and receiver share.
template <class Communicator>
struct two_level : exact_method<two_level<Communicator>, Communicator> {
  int group;  // ranks of a group

  explicit two_level(Communicator communicator, int ranks = 2)
      : exact_method<two_level, Communicator>{{communicator}}, group(ranks) {}

  [[nodiscard]] int chunks(std::size_t) const { return 1; }  // a bucket is not cut

  // Bytes for one received bucket, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size(), r = this->comm.rank(), leader = r / group * group;
    const chunk_range bucket{0, w.count()};
    const auto for_peers = [](int first, int last, int step, const auto& f) {
      for (int peer = first; peer < last; peer += step) f(peer);
    };
    const auto add_from = [&](int peer) { w.add(no_peer, bucket, peer, bucket); };
    const auto send_mean = [&](int peer) { w.pass(peer, bucket, no_peer, bucket); };
    const int end = std::min(leader + group, p);
    if (r == leader) for_peers(leader + 1, end, 1, add_from);
    if (r == 0) {
      for_peers(group, p, group, add_from);
      w.average(bucket, p);
      for_peers(group, p, group, send_mean);
    } else {
      const int parent = r == leader ? 0 : leader;
      w.add(parent, bucket, no_peer, bucket);   // sends this rank's sum
      w.pass(no_peer, bucket, parent, bucket);  // receives the mean
    }
    if (r == leader) for_peers(leader + 1, end, 1, send_mean);
    w.flush();
  }
  [[nodiscard]] std::string describe() const {
    return concat("two levels over ", this->comm.size(), " ranks in groups of ", group,
                  ": exact mean");
  }
};
template <class Communicator>
two_level(Communicator, int) -> two_level<Communicator>;
static_assert(ReducerOn<two_level<threads>, float, cpu>);
static_assert(ReducerOn<compressed<two_level<threads>, fp16>, float, cpu>);

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

void check(int group) {
  const std::string violation = reducer_laws(
      [group](auto comm) {
        return two_level{comm, group};
      },
      {.ranks = {1, 2, 3, 4, 5, 6, 7, 8}});
  if (!violation.empty()) throw error(violation);
  std::printf("two_level in groups of %d obeys the laws over 1 to 8 ranks\n", group);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "own_reducer: an exact mean of your own, in two levels");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 4, "ranks in this process");
    const int group = o.positive("group", 2, "ranks of one group");
    const int global = o.positive("batch", 128, "samples of one update, over all ranks");
    const double epochs = o.number("epochs", 2, "passes over 9,000 images");
    const double learning_rate = o.number("learning-rate", 0.1, "peak learning rate");
    const std::uint64_t seed = o.seed();
    const bool only_check = o.flag("check", "test the reducer by its laws, train nothing");
    o.done();
    expects(group > 0, "--group must be at least 1");
    if (only_check) return check(group);

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held_out] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held_out = held_out](threads comm) {
      network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{training,
                  comm,
                  {.global_batch = global, .seed = seed},
                  {},
                  normalize::measured(training)};
      trainer run{net,
                  sgd{.momentum = 0.9},
                  cosine{.peak = learning_rate, .epochs = epochs},
                  two_level{comm, group},
                  {.seed = seed}};
      if (comm.rank() == 0) std::printf("%s\n", describe(run, feed, epochs).c_str());
      const auto done = run.fit(feed, epochs, validation{held_out}, console{});
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %lld images\n",
                    decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
                    static_cast<long long>(done.last.validation->count));
    });
  });
}
