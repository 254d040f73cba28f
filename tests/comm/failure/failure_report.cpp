// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/failure/failure_report.hpp>

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::failure;

TEST_CASE(
    "failure_report: an operation is passed on with all ranks that are reported, in any order") {
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

TEST_CASE(
    "failure_report: merge_report reverses serialize_report, also of a text that is cut off") {
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

TEST_CASE("failure_report: a malformed report from another process is left out") {
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

TEST_CASE(
    "failure_report: reports of random bytes, and real ones with random changes, do no harm") {
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
