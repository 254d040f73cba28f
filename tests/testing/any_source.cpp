// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/threads.hpp>
#include <cordee/testing/any_source.hpp>

using namespace cordee;
using namespace std::chrono_literals;

namespace {

// Says the name of another rank now and then, or hears a word and keeps it.
struct faulty {
  threads link;
  bool misnames = false;

  int rank() const { return link.rank(); }
  int size() const { return link.size(); }
  faulty lane(int k) const { return {link.lane(k), misnames}; }
  void abandon(const char* why) const { link.abandon(why); }
  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    link.exchange(out, in, s);
  }
  int next(std::span<const int> due) const {
    const int first = link.next(due);
    if (misnames) return (first + 1) % size();
    detail::word lost(1);
    detail::exchange(link, {}, {detail::hear(first, lost)});
    return link.next(due);
  }
};

template <class Wrap>
std::string broken(int ranks, const Wrap& wrap, std::chrono::milliseconds deadline = 60s) {
  verdict v;
  try {
    threads::launch(ranks, [&](threads link) { detail::any_source_is_heard(wrap(link), v); },
                    {.deadline = deadline});
  } catch (const error& e) {
    v.law(false, e.what());
  }
  return v.str();
}

}  // namespace

TEST_CASE("over threads any source is heard") {
  for (const int ranks : {1, 2, 5}) CHECK(broken(ranks, [](threads link) { return link; }) == "");
}

TEST_CASE("a source that is lost or misnamed is found") {
  // By the word behind it, or, where each loss falls on a rank's last words, by a wait that ends.
  CHECK(broken(
            3, [](threads link) { return faulty{link}; }, 1s) != "");
  CHECK(broken(
            1, [](threads link) { return faulty{link}; }, 1s) != "");
  CHECK(broken(
            3,
            [](threads link) {
              return faulty{link, true};
            },
            1s) != "");
}
