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

//   x <- sum over groups of (sum over the ranks of the group of x), divided by p once
template <class Link>
struct two_level {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;  // every rank leaves with the same bits
  static constexpr bool lossless = true;
  static constexpr int slots = 0;  // no memory from one step to the next

  Link link;
  int group = 2;

  // What comes from everybody that one rank hears at once.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const int groups = (link.size() + group - 1) / group;
    return static_cast<std::size_t>(std::max(group, groups)) * n * sizeof(Real);
  }
  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    const int p = link.size(), r = link.rank(), leader = r / group * group;
    if (r != leader) {
      send(m.what, {leader}, s);
      return receive(m.what, leader, s);
    }
    std::vector<int> members, leaders;
    for (int k = leader + 1; k < std::min(leader + group, p); ++k) members.push_back(k);
    for (int k = 0; k < p; k += group) leaders.push_back(k);
    gather(m, {}, members, s);       // each level is a sum in the order of the ranks, so that all
    gather(m, leaders, leaders, s);  // leaders have the same bits
    for_each(s, m.what.size, [x = m.what.data, p](std::size_t i) { x[i] /= static_cast<Real>(p); });
    send(m.what, members, s);
  }

  [[nodiscard]] std::string describe() const {
    return text("two levels over ", link.size(), " ranks in groups of ", group, ": exact mean");
  }

 private:
  // Says x to some and hears others, all at once; x becomes the sum of what was heard, and of what
  // it was unless it has been said to this rank itself.
  template <class Real, Device D>
  void gather(message<Real, D, 0> m, const std::vector<int>& say, const std::vector<int>& hear,
              typename D::stream s) const {
    const std::size_t n = m.what.size;
    Real* const heard = reinterpret_cast<Real*>(m.scratch.data);
    std::vector<to<D>> out;
    std::vector<from<D>> in;
    for (const int peer : say) out.push_back({peer, const_bytes(m.what)});
    for (std::size_t k = 0; k < hear.size(); ++k)
      in.push_back({hear[k], bytes(span_on<Real, D>{heard + k * n, n})});
    link.exchange(std::span<const to<D>>(out), std::span<const from<D>>(in), s);
    const bool own = say.empty();
    for_each(s, n, [=, x = m.what.data, count = hear.size()](std::size_t i) {
      Real sum = own ? x[i] : Real{0};
      for (std::size_t k = 0; k < count; ++k) sum += heard[k * n + i];
      x[i] = sum;
    });
  }
  template <class Real, Device D>
  void send(span_on<Real, D> x, const std::vector<int>& peers, typename D::stream s) const {
    std::vector<to<D>> out;
    for (const int peer : peers) out.push_back({peer, const_bytes(x)});
    link.exchange(std::span<const to<D>>(out), std::span<const from<D>>{}, s);
  }
  template <class Real, Device D>
  void receive(span_on<Real, D> x, int peer, typename D::stream s) const {
    const from<D> in{peer, bytes(x)};
    link.exchange(std::span<const to<D>>{}, std::span<const from<D>>(&in, 1), s);
  }
};
template <class Link>
two_level(Link, int) -> two_level<Link>;
static_assert(ReducerOn<two_level<threads>, float, cpu>);

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
