// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A reducer of your own: an exact mean in two levels, inside of groups and then among their
// leaders, as one does where some links are fast (within a machine) and others slow (between
// machines). It trains a small network; --check holds it to the laws of exact reducers.
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

/// What it holds. `link` comes first, so that two_level{link, 3} makes one.
template <class Link>
struct in_groups {
  using link_type = Link;
  Link link;
  int group = 2;
};

//   x <- sum over groups of (sum over the ranks of the group of x), divided by p once
//
// exact_method makes it a reducer, and narrow{two_level{…}, fp16{}} another; here stands who tells
// whom, in an order that is the same on both sides.
template <class Link>
struct two_level : exact_method<two_level<Link>, in_groups<Link>> {
  [[nodiscard]] int parts(std::size_t) const { return 1; }  // a message is not cut

  // What one peer says, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size(), r = this->link.rank(), leader = r / this->group * this->group;
    const blocks all{0, w.count()};
    const auto each = [](int first, int last, int step, const auto& f) {
      for (int peer = first; peer < last; peer += step) f(peer);
    };
    const auto hear = [&](int peer) { w.add(nobody, all, peer, all); };
    const auto tell = [&](int peer) { w.pass(peer, all, nobody, all); };
    const auto ask = [&](int above) {  // adds mine to its sum, and takes the mean from it
      w.add(above, all, nobody, all);
      w.pass(nobody, all, above, all);
    };
    const int end = std::min(leader + this->group, p);
    if (r == leader) each(leader + 1, end, 1, hear);
    if (r == 0) {
      each(this->group, p, this->group, hear);
      w.finish(all, p);
      each(this->group, p, this->group, tell);
    } else {
      ask(r == leader ? 0 : leader);
    }
    if (r == leader) each(leader + 1, end, 1, tell);
    w.open();
  }
  [[nodiscard]] std::string describe() const {
    return text("two levels over ", this->link.size(), " ranks in groups of ", this->group,
                ": exact mean");
  }
};
template <class Link>
two_level(Link, int) -> two_level<Link>;
static_assert(ReducerOn<two_level<threads>, float, cpu>);
static_assert(ReducerOn<narrow<two_level<threads>, fp16>, float, cpu>);

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

void check(int group) {
  const std::string broken = reducer_laws(
      [group](auto link) {
        return two_level{link, group};
      },
      {.ranks = {1, 2, 3, 4, 5, 6, 7, 8}});
  if (!broken.empty()) throw error(broken);
  std::printf("two_level in groups of %d keeps the laws over 1 to 8 ranks\n", group);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "own_reducer: an exact mean of your own, in two levels");
    const std::string at = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                  "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.whole("ranks", 4, "workers in this process");
    const int group = o.whole("group", 2, "ranks of one group");
    const int global = o.whole("batch", 128, "samples of one update, over all workers");
    const double epochs = o.number("epochs", 2, "passes over 9,000 images");
    const double rate = o.number("rate", 0.1, "peak rate");
    const bool only_check = o.flag("check", "hold the reducer to the laws, train nothing");
    o.done();
    expects(group > 0, "--group: at least 1");
    if (only_check) return check(group);

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held = held](threads link) {
      network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{
          training, link, {.global_batch = global, .seed = 1}, {}, normalise::measured(training)};
      trainer run{net, sgd{.momentum = 0.9}, cosine{.peak = rate, .epochs = epochs},
                  two_level{link, group}};
      if (link.rank() == 0) std::printf("%s\n", describe(run, feed, epochs).c_str());
      const auto done = run.fit(feed, epochs, held_out{held}, console{});
      if (link.rank() == 0)
        std::printf("held-out accuracy %.1f %% of %lld images\n",
                    100 * done.last.held_out->accuracy(),
                    static_cast<long long>(done.last.held_out->count));
    });
  });
}
