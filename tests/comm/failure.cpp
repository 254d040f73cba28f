// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/comm/failure.hpp>

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::failure;

namespace {
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What f prints to stderr.
template <class F>
std::string printed(const F& f) {
  std::FILE* const file = std::tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  f();
  dup2(before, STDERR_FILENO);
  close(before);
  std::rewind(file);
  char text[1000];
  const std::string all(text, std::fread(text, 1, sizeof text, file));
  std::fclose(file);
  return all;
}
}  // namespace

TEST_CASE("failure: record_local prints a stall once, and nothing of an exception") {
  CHECK(printed([] {
          failure f(2);
          CHECK(f.record_local(0, "waited for rank 1", true));
          CHECK_FALSE(f.record_local(1, "waited for rank 0", true));
        }) == "cordee: rank 0: waited for rank 1\n");
  CHECK(printed([] {
          failure f(2);
          CHECK(f.record_local(0, "the sensor fell off", false));
          f.record(1, "of another process", true);
        }).empty());
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

TEST_CASE("failure: an operation is passed on with all ranks that are reported, in any order") {
  failure local(4), remote(4);
  for (failure* f : {&local, &remote}) f->record(0, "waited", true);
  local.add_report(1, "waited", 30ms, {{12, "bucket 0", {2}}, {12, "bucket 0", {0}}});
  local.add_report(1, "waited", 30ms, {{12, "bucket 0", {2, 3}}});
  CHECK(local.serialize_report(1) == "30 6\nwaited12 0-0,2-3 bucket 0\n");
  remote.merge_report(1, local.serialize_report(1));
  CHECK(remote.describe() == local.describe());
  CHECK(remote.describe().find("rank 3 reported no wait; took part up to bucket 0, which rank 1") !=
        std::string::npos);
}

TEST_CASE("failure: merge_report reverses serialize_report, also of a text that is cut off") {
  failure local(3), remote(3), truncated(3);
  for (failure* f : {&local, &remote, &truncated}) f->record(0, "waited", true);
  local.add_report(
      1, "had waited 30 ms for\nrank 0", 30ms,
      {{12, "step 3, bucket 0 (W1 to b2)", {0}}, {11, "step 2, bucket 1 (W2 to b3)", {2}}});
  remote.merge_report(1, local.serialize_report(1));
  remote.merge_report(0, local.serialize_report(0));
  remote.merge_report(0, "");  // of a rank that has died
  CHECK(remote.describe() == local.describe());
  CHECK(remote.describe().find("took part up to step 3, bucket 0 (W1 to b2), which rank 1") !=
        std::string::npos);
  const std::string all = local.serialize_report(1);
  truncated.merge_report(1, all.substr(0, all.size() - 1));
  CHECK(truncated.report_of(1) == local.report_of(1));
  CHECK(truncated.describe().find("which rank 1 has finished\n  rank 1") != std::string::npos);
  CHECK(truncated.describe().find("\n  rank 2 reported no wait\n") != std::string::npos);
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

TEST_CASE("failure: a malformed report from another process is left out") {
  const auto merged = [](int rank, const std::string& report) {
    failure f(3);
    f.record(0, "waited", true);
    f.merge_report(rank, report);
    return f.serialize_report(1);
  };
  const std::string none = merged(1, "");
  for (const char* report :
       {"x", "5", "5 3", "5 x\nabc", "5\n3\nabc", " 5 3\nabc", "5 -3\nabc", "-2 3\nabc",
        "99999999999999999999 3\nabc", "5 99999999999999999999\nabc"})
    CHECK(merged(1, report) == none);
  CHECK(merged(1, "5 100\nabc") == "5 3\nabc");  // longer than what has arrived
  CHECK(merged(1, "5 18446744073709551615\nabc") == "5 3\nabc");
  CHECK(merged(1, "5 3\nabc1 0-2000000000 x\n2 0-1 y\n") == "5 3\nabc2 0-1 y\n");
  for (const int rank : {-1, 3, 1 << 30}) CHECK(merged(rank, "5 3\nabc") == none);
}

TEST_CASE("failure: reports of random bytes, and real ones with random changes, do no harm") {
  failure real(4);
  real.record(0, "waited", true);
  real.add_report(1, "had waited 30 ms for rank 0", 30ms,
                  {{12, "step 3, bucket 0 (W1 to b2)", {0, 1, 3}}, {11, "bucket 1", {2}}});
  const std::string sample = real.serialize_report(1);
  std::mt19937_64 random(1);
  // The characters of a report are likelier to get far than any byte.
  const std::string alphabet("0123456789-, \nstep", 17);
  for (int k = 0; k < 100'000; ++k) {
    std::string report;
    if (k % 2 == 0) {
      report.resize(random() % 40);
      for (char& c : report)
        c = k % 4 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    } else {
      report = sample.substr(0, random() % (sample.size() + 1));
      for (int change = 0; change < 3 && !report.empty(); ++change)
        report[random() % report.size()] = alphabet[random() % alphabet.size()];
    }
    failure f(4);
    f.record(0, "waited", true);
    f.merge_report(static_cast<int>(random() % 4), report);
    CHECK(f.describe().size() < 2000);
  }
}
