// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/generation.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

generation world_of(std::int64_t number, const std::vector<std::uint64_t>& ids) {
  generation g{number, static_cast<std::uint64_t>(number) * 1000 + ids.size(), {}};
  for (const std::uint64_t id : ids) g.members.push_back({id, "10.0.0.7", 29500});
  return g;
}
template <class T>
std::optional<T> parsed(const std::string& text) {
  word_reader in(text);
  return T::parse(in);
}

// Processes that are cut off from one another at random, and what of each proposal arrives, late.
struct network {
  struct proposal {
    generation next;
    std::vector<std::uint64_t> awaited;  // have not promised
    std::vector<std::int64_t> newest;    // of each process, as it called: a promise ends its call
  };
  std::mt19937 random;
  std::vector<generation_history> processes;
  std::vector<generation> formed;  // of all worlds that have trained, in any order
  std::vector<proposal> proposals;

  network(unsigned seed, int ranks) : random(seed) {
    std::vector<std::uint64_t> ids;
    for (int r = 1; r <= ranks; ++r) ids.push_back(static_cast<std::uint64_t>(r));
    formed.push_back(world_of(1, ids));
    processes.assign(ids.size(), generation_history(formed.front()));
  }
  bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }

  // Some reach each other, and one of them proposes the next world.
  void meet(int reached) {
    std::vector<std::uint64_t> ids;
    generation_history known;
    for (std::size_t p = 0; p < processes.size(); ++p)
      if (chance(reached)) {
        ids.push_back(p + 1);
        if (ids.size() == 1) known = processes[p];
        known.merge(processes[p]);
      }
    if (ids.empty() || known.without_quorum(ids) != nullptr) return;
    generation next = world_of(known.newest() + 1, ids);
    next.nonce = random();
    proposals.push_back({next, ids, {}});
    for (const auto& own : processes) proposals.back().newest.push_back(own.newest());
  }
  // One proposal reaches one of its members.
  void deliver(int informed) {
    if (proposals.empty()) return;
    proposal& p = proposals[random() % proposals.size()];
    if (p.awaited.empty()) return;
    const auto id = p.awaited.begin() + static_cast<long>(random() % p.awaited.size());
    generation_history& own = processes[*id - 1];
    if (own.newest() != p.newest[*id - 1] || !own.may_promise(p.next)) return;
    own.promise(p.next);
    p.awaited.erase(id);
    if (!p.awaited.empty()) return;
    for (const member& m : p.next.members) {  // one that has left is missing at its server
      const auto promised = processes[m.id - 1].promised();
      if (promised.empty() || promised.back() != p.next) return;
    }
    formed.push_back(p.next);
    for (const member& m : p.next.members)
      if (chance(informed)) processes[m.id - 1].form(p.next);
  }
};

}  // namespace

TEST_CASE("generation: a quorum is more than half, or half with rank 0") {
  const generation five = world_of(1, {10, 20, 30, 40, 50}), four = world_of(2, {10, 20, 30, 40});
  using ids = std::vector<std::uint64_t>;
  CHECK(five.has_quorum(ids{20, 30, 50}));
  CHECK_FALSE(five.has_quorum(ids{10, 20, 60, 70}));
  CHECK(four.has_quorum(ids{10, 40}));
  CHECK_FALSE(four.has_quorum(ids{20, 40}));
  CHECK(four.has_quorum(ids{20, 30, 40}));
  CHECK_FALSE(world_of(1, {10, 20}).has_quorum(ids{20}));
  CHECK_FALSE(five.has_quorum(ids{}));
}

TEST_CASE("generation: whatever is cut off when, each world that forms is the only successor") {
  std::size_t worlds = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    CAPTURE(seed);
    network n(seed, 2 + static_cast<int>(seed % 7));
    for (int k = 0; k < 300; ++k)
      if (n.chance(15))
        n.meet(40 + static_cast<int>(seed % 5) * 12);
      else
        n.deliver(static_cast<int>(seed % 101));
    worlds += n.formed.size();
    std::ranges::sort(n.formed, {}, &generation::number);
    for (std::size_t i = 1; i < n.formed.size(); ++i) {
      const generation &before = n.formed[i - 1], &next = n.formed[i];
      std::vector<std::uint64_t> ids;
      for (const member& m : next.members) ids.push_back(m.id);
      REQUIRE(next.number > before.number);
      REQUIRE(before.has_quorum(ids));
    }
  }
  CHECK(worlds > 8000);
}

TEST_CASE("generation: a newer formed world forgets older promises, and merging keeps newer ones") {
  generation_history h(world_of(1, {1, 2, 3}));
  CHECK(h.may_promise(world_of(2, {1, 2})));
  CHECK_FALSE(h.may_promise(world_of(1, {1, 2})));
  h.promise(world_of(2, {1, 2}));
  h.promise(world_of(4, {1}));
  CHECK(h.newest() == 4);
  CHECK_FALSE(h.may_promise(world_of(4, {1, 2})));
  CHECK(h.members().size() == 3);
  generation_history other(world_of(3, {1, 2, 4}));
  other.promise(world_of(5, {2, 4, 5}));
  h.merge(other);
  CHECK(h.formed().number == 3);
  CHECK(h.promised().size() == 2);
  std::string order;
  for (const member& m : h.members()) order += concat(m.id, " ");
  CHECK(order == "1 2 4 5 ");
  h.form(world_of(5, {2, 4, 5}));
  CHECK(h.promised().empty());
}

TEST_CASE("generation: of a history's text every prefix and every damage is refused or whole") {
  generation_history h(world_of(7, {1, 2, 3}));
  h.promise(world_of(9, {1, 3}));
  const std::string text = h.serialize();
  const auto back = parsed<generation_history>(text);
  REQUIRE(back);
  CHECK(back->serialize() == text);
  for (std::size_t n = 0; n + 6 < text.size(); ++n) {  // "29500 " may lose its end
    CAPTURE(n);
    CHECK_FALSE(parsed<generation_history>(text.substr(0, n)));
  }
  for (const char* wrong :
       {"", "0 1 1 5 a 1 0 ", "-1 1 1 5 a 1 0 ", "1 1 0 0 ", "1 1 1 0 a 1 0 ", "1 1 1 5 a 0 0 ",
        "1 1 1 5 a 65536 0 ", "1 1 2 5 a 1 5 b 1 0 ", "1 1 9999999999 5 a 1 0 ", "1 1 1 5 a 1 -1 ",
        "1 1 1 5 a 1 2000 ", "1x 1 1 5 a 1 0 ", "1 1 1 5  1 0 ",
        "99999999999999999999 1 1 5 a 1 0 "}) {
    CAPTURE(wrong);
    CHECK_FALSE(parsed<generation_history>(wrong));
  }
  CHECK(parsed<generation_history>("1 1 1 5 a 1 0 "));
  CHECK_FALSE(parsed<generation_history>(concat("1 1 1 5 ", std::string(64, 'a'), " 1 0 ")));
}

TEST_CASE("failed_worlds: counts those of the same ranks, from the last one that has trained") {
  const std::vector<member> two{{1, "a", 1}, {2, "b", 2}}, one{{1, "a", 1}};
  failed_worlds f;
  std::vector<int> counts;
  const auto note = [&](const std::vector<member>& of, bool has_trained) {
    f.note(of, "why", has_trained);
    counts.push_back(f.count);
  };
  for (int k = 0; k < 3; ++k) note(two, false);
  note(one, false);
  note(one, true);
  note(one, false);
  note(two, false);
  CHECK(counts == std::vector{1, 2, 3, 1, 0, 1, 1});
  CHECK(f.are(two));
  CHECK_FALSE(f.are(one));
}
