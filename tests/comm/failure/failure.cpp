// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/failure/failure.hpp>

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::failure;

namespace {
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What run_rank throws on a rank of a run that has failed.
struct failed_world {
  int own;
  int killed = -1;  // a rank that has not left
  failure reason{3};

  void fail(const std::string& cause) { reason.record(own, cause); }
  void leave() {}
  int rank() const { return own; }
  bool has_left(int rank) const { return rank != killed; }
  const failure& first_failure() const { return reason; }

  std::string message() {
    try {
      detail::comm::run_rank(*this, [] {});
    } catch (const aborted& e) {
      return concat("aborted: ", e.what());
    } catch (const error& e) {
      return e.what();
    }
    return {};
  }
};
}  // namespace

TEST_CASE("failure: of processes the lowest that has left throws the cause; the others aborted") {
  const std::string stall =
      "rank 1: rank 1 waited 5 ms for rank 0"
      "\n  rank 0 reported no wait\n  rank 1 reported no wait\n  rank 2 reported no wait"
      "\n  suspected: rank 0, rank 1, rank 2 (reported no wait)";
  for (const int killed : {-1, 0})
    for (const int rank : {0, 1, 2}) {
      if (rank == killed) continue;
      failed_world stalled{rank, killed}, threw{rank, killed};
      stalled.reason.record(1, "rank 1 waited 5 ms for rank 0", true);
      threw.reason.record(1, "the sensor fell off");
      const bool reports = rank == killed + 1;
      const std::string aborted = concat("aborted: rank ", rank, " ended with the run: ");
      CHECK(stalled.message() == concat(reports ? "" : aborted, stall));
      CHECK(threw.message() == concat(reports ? "" : aborted, "rank 1: the sensor fell off"));
      CHECK(failed_world{rank, killed}.message().empty());
    }
}

TEST_CASE("failure: the first cause counts, and later ones do not") {
  failure f(3);
  CHECK_FALSE(f.happened());
  CHECK(f.record(2, "the cause"));
  CHECK_FALSE(f.record(0, "a consequence", true));
  CHECK(f.happened());
  CHECK_FALSE(f.stalled());
  CHECK(f.failed_rank() == 2);
  CHECK(f.cause() == "rank 2: the cause");
}

TEST_CASE("failure: where ranks are is said of the one that failed and of those suspected") {
  failure f(3);
  CHECK(f.name_of(2) == "rank 2");
  f.record(0, "waited for rank 2", true);
  f.add_report(0, "had waited 20 ms for rank 2", 20ms);
  f.set_addresses({"10.0.0.1:7", "10.0.0.1:8", "10.0.0.2:9"});
  CHECK(f.name_of(2) == "rank 2 at 10.0.0.2:9");
  CHECK(f.cause() == "rank 0 at 10.0.0.1:7: waited for rank 2");
  CHECK(ends_with(f.describe(),
                  "suspected: rank 1 at 10.0.0.1:8, rank 2 at 10.0.0.2:9 (reported no wait)"));
  f.add_report(1, "had waited 9 ms for rank 2", 9ms);
  f.add_report(2, "had waited 5 ms for rank 1", 5ms);
  CHECK(ends_with(f.describe(), "suspected: rank 2 at 10.0.0.2:9 (shortest wait)"));
}

TEST_CASE("failure: describe has a line for each rank after a stall, and none after an exception") {
  for (const bool stalled : {false, true}) {
    failure f(4);
    f.add_report(1, "had waited 30 ms for rank 2", 30ms);
    f.record(1, "waited for rank 2", stalled);
    f.add_report(0, "had waited 20 ms for rank 1", 20ms);
    f.add_report(0, "had waited 20 ms for rank 1", 20ms);
    f.add_report(0, "its server for rank 2");
    CHECK(f.report_of(0) == "had waited 20 ms for rank 1; its server for rank 2");
    CHECK(f.describe() == (stalled ? "rank 1: waited for rank 2"
                                     "\n  rank 0 had waited 20 ms for rank 1; its server for rank 2"
                                     "\n  rank 1 had waited 30 ms for rank 2"
                                     "\n  rank 2 reported no wait"
                                     "\n  rank 3 reported no wait"
                                     "\n  suspected: rank 2, rank 3 (reported no wait)"
                                   : "rank 1: waited for rank 2"));
  }
}

TEST_CASE(
    "failure: suspected are the ranks without a wait, or else the one with the shortest wait") {
  failure f(3);
  f.record(0, "waited for rank 1", true);
  f.add_report(0, "had waited 2000 ms for rank 1", 2000ms);
  f.add_report(1, "had waited 1500 ms for rank 2", 1500ms);
  f.add_report(2, "its server for rank 2");  // waits idle
  CHECK(ends_with(f.describe(), "\n  suspected: rank 2 (reported no wait)"));
  f.add_report(2, "had waited 1 ms for rank 0", 1ms);
  CHECK(ends_with(f.describe(), "\n  suspected: rank 2 (shortest wait)"));
  f.add_report(2, "had waited 1700 ms for rank 0", 1700ms);  // another thread of the same rank
  CHECK(ends_with(f.describe(), "\n  suspected: rank 1 (shortest wait)"));
}

TEST_CASE("failure: where rank 0 passes on no reports, it is suspected, and no silent rank") {
  failure f(3);
  f.record(2, "waited for rank 1", true);
  f.add_report(2, "had waited 2000 ms for rank 1", 2000ms);
  f.note_silent_server();
  CHECK(f.describe().find("\n  suspected: rank 0 (does not answer, ") != std::string::npos);
}

TEST_CASE(
    "failure: of a rank without a report the last operation that another rank finished with it") {
  failure f(4);
  f.record(0, "waited for rank 2", true);
  f.add_report(0, "waited", 2000ms, {{7, "bucket 6", {0, 1, 2}}});
  f.add_report(1, "waited", 1000ms, {{8, "bucket 7", {0, 1, 2}}, {5, "bucket 4", {3}}});
  const char* const lines =
      "\n  rank 2 reported no wait; took part up to bucket 7, which rank 1 has finished"
      "\n  rank 3 reported no wait; took part up to bucket 4, which rank 1 has finished\n";
  CHECK(f.describe().find(lines) != std::string::npos);
  f.add_report(0, "waited", 2000ms, {{9, "bucket 8", {0, 1}}});  // of a subgroup without them
  CHECK(f.describe().find(lines) != std::string::npos);
}

TEST_CASE("failure: reports of one operation are merged") {
  failure f(3);
  f.add_report(1, "waited", 1ms,
               {{2, "bucket 1", {0}}, {2, "bucket 1", {1}}, {2, "bucket 1", {2}}});
  CHECK(ends_with(f.serialize_report(1), "waited2 0-2 bucket 1\n"));
}

TEST_CASE("failure: the grace period is the deadline, at most ten seconds") {
  CHECK(detail::comm::grace_period(2s) == 2s);
  CHECK(detail::comm::grace_period(120s) == 10s);
}

TEST_CASE("failure: a deadline is above 0; of the longest one times can be computed") {
  using detail::comm::checked_deadline, detail::comm::longest_deadline;
  for (const auto deadline : {0ms, -1ms, std::chrono::milliseconds::min()})
    CHECK_THROWS_WITH_AS(checked_deadline(deadline, "mpi::options{.deadline}"),
                         doctest::Contains("mpi::options{.deadline} is "), usage_error);
  CHECK(checked_deadline(1ms, "") == 1ms);
  CHECK(checked_deadline(std::chrono::milliseconds::max(), "") == longest_deadline);
  using clock = std::chrono::steady_clock;
  const auto now = clock::now();
  CHECK(now + longest_deadline * 5 / 4 > now);
  CHECK(clock::duration(longest_deadline * 5 / 4).count() / 1'000'000 ==
        (longest_deadline * 5 / 4).count());
}
