// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/testing/any_source.hpp>

using namespace cordee;
using namespace std::chrono_literals;

namespace {

// Receives a message and drops it, or returns another rank than the source.
struct faulty {
  threads comm;
  bool misnames_source = false;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  faulty duplicate(int k) const { return {comm.duplicate(k), misnames_source}; }
  void abort(const char* why) const { comm.abort(why); }
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    comm.exchange(out, in, s);
  }
  int probe_any(std::span<const int> due) const {
    const int source = comm.probe_any(due);
    if (misnames_source) return (source + 1) % size();
    detail::testing::message dropped(1);
    detail::testing::exchange(comm, {}, {detail::testing::receive_from(source, dropped)});
    return comm.probe_any(due);
  }
};

template <class Wrap>
std::string violations(int ranks, const Wrap& wrap, std::chrono::milliseconds deadline = 60s) {
  detail::testing::report r;
  try {
    threads::launch(ranks, [&](threads comm) { detail::testing::check_any_source(wrap(comm), r); },
                    {.deadline = deadline});
  } catch (const error& e) {
    r.expect(false, e.what());
  }
  return r.violations();
}

}  // namespace

TEST_CASE("check_any_source: threads keep the law") {
  for (const int ranks : {1, 2, 5})
    CHECK(violations(ranks, [](threads comm) { return comm; }) == "");
}

TEST_CASE("check_any_source: a dropped message and a misnamed source are violations") {
  // Found by the next message of the source, or, if a rank's last message is dropped, by the
  // deadline.
  CHECK(violations(
            3, [](threads comm) { return faulty{comm}; }, 1s) != "");
  CHECK(violations(
            1, [](threads comm) { return faulty{comm}; }, 1s) != "");
  CHECK(violations(
            3,
            [](threads comm) {
              return faulty{comm, true};
            },
            1s) != "");
}
