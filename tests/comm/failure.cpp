// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/comm/failure.hpp>

using namespace cordee;
using namespace std::chrono_literals;
using detail::failure;

namespace {
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What f says on stderr.
template <class F>
std::string muttered(const F& f) {
  std::FILE* const file = std::tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  f();
  dup2(before, STDERR_FILENO);
  close(before);
  std::rewind(file);
  char words[1000];
  const std::string all(words, std::fread(words, 1, sizeof words, file));
  std::fclose(file);
  return all;
}
}  // namespace

TEST_CASE("failure: a stall is told where it happens at once, and once; what is thrown is not") {
  CHECK(muttered([] {
          failure f(2);
          CHECK(f.arise(0, "waited for rank 1", true));
          CHECK_FALSE(f.arise(1, "waited for rank 0", true));
        }) == "cordee: rank 0: waited for rank 1\n");
  CHECK(muttered([] {
          failure f(2);
          CHECK(f.arise(0, "the sensor fell off", false));
          f.note(1, "heard of elsewhere", true);
        }).empty());
}

TEST_CASE("failure: the first cause counts, and whoever fails after it is not heard") {
  failure f(3);
  CHECK_FALSE(f.happened());
  CHECK(f.note(2, "out of rope"));
  CHECK_FALSE(f.note(0, "an echo", true));
  CHECK(f.happened());
  CHECK_FALSE(f.stalled());
  CHECK(f.culprit() == 2);
  CHECK(f.cause() == "rank 2: out of rope");
}

TEST_CASE("failure: after a stall every rank has a line, after a throw none") {
  for (const bool stalled : {false, true}) {
    failure f(4);
    f.report(1, "had waited 30 ms for rank 2", 30ms);
    f.note(1, "waited for rank 2", stalled);
    f.report(0, "had waited 20 ms for rank 1", 20ms);
    f.report(0, "had waited 20 ms for rank 1", 20ms);
    f.report(0, "its server for rank 2");
    CHECK(f.report(0) == "had waited 20 ms for rank 1; its server for rank 2");
    CHECK(f.in_full() == (stalled ? "rank 1: waited for rank 2"
                                    "\n  rank 0 had waited 20 ms for rank 1; its server for rank 2"
                                    "\n  rank 1 had waited 30 ms for rank 2"
                                    "\n  rank 2 told of no exchange"
                                    "\n  rank 3 told of no exchange"
                                    "\n  look first at rank 2, rank 3: no word of a wait from there"
                                  : "rank 1: waited for rank 2"));
  }
}

TEST_CASE("failure: to blame is who waited for nobody, else who had waited least") {
  failure f(3);
  f.note(0, "waited for rank 1", true);
  f.report(0, "had waited 2000 ms for rank 1", 2000ms);
  f.report(1, "had waited 1500 ms for rank 2", 1500ms);
  f.report(2, "its server for rank 2");  // which waits by trade
  CHECK(ends_with(f.in_full(), "\n  look first at rank 2: no word of a wait from there"));
  f.report(2, "had waited 1 ms for rank 0", 1ms);
  CHECK(ends_with(f.in_full(), "\n  look first at rank 2: it had waited least"));
  f.report(2, "had waited 1700 ms for rank 0", 1700ms);  // another thread of it
  CHECK(ends_with(f.in_full(), "\n  look first at rank 1: it had waited least"));
}

TEST_CASE(
    "failure: a silent rank took part in the last thing that another one has finished with it") {
  failure f(4);
  f.note(0, "waited for rank 2", true);
  f.report(0, "waited", 2000ms, {{7, "bucket 6", {0, 1, 2}}});
  f.report(1, "waited", 1000ms, {{8, "bucket 7", {0, 1, 2}}, {5, "bucket 4", {3}}});
  const char* const lines =
      "\n  rank 2 told of no exchange; took part up to bucket 7, which rank 1 has finished"
      "\n  rank 3 told of no exchange; took part up to bucket 4, which rank 1 has finished\n";
  CHECK(f.in_full().find(lines) != std::string::npos);
  f.report(0, "waited", 2000ms, {{9, "bucket 8", {0, 1}}});  // of a group without them
  CHECK(f.in_full().find(lines) != std::string::npos);
}

TEST_CASE("failure: what a rank has reported reaches another process whole, or without its end") {
  failure here(3), there(3), far(3);
  for (failure* f : {&here, &there, &far}) f->note(0, "waited", true);
  here.report(1, "had waited 30 ms for\nrank 0", 30ms,
              {{12, "step 3, bucket 0 (W1 to b2)", {0}}, {11, "step 2, bucket 1 (W2 to b3)", {2}}});
  there.hear(1, here.farewell(1));
  there.hear(0, here.farewell(0));
  there.hear(0, "");  // of a rank that died
  CHECK(there.in_full() == here.in_full());
  CHECK(there.in_full().find("took part up to step 3, bucket 0 (W1 to b2), which rank 1") !=
        std::string::npos);
  const std::string all = here.farewell(1);
  far.hear(1, all.substr(0, all.size() - 1));
  CHECK(far.report(1) == here.report(1));
  CHECK(far.in_full().find("which rank 1 has finished\n  rank 1") != std::string::npos);
  CHECK(far.in_full().find("\n  rank 2 told of no exchange\n") != std::string::npos);
}

TEST_CASE("failure: what many ranks had part in is said once") {
  failure f(3);
  f.report(1, "waited", 1ms, {{2, "bucket 1", {0}}, {2, "bucket 1", {1}}, {2, "bucket 1", {2}}});
  CHECK(ends_with(f.farewell(1), "waited2 0-2 bucket 1\n"));
}

TEST_CASE("failure: the grace is the deadline's length, and ten seconds at most") {
  CHECK(detail::grace(2s) == 2s);
  CHECK(detail::grace(120s) == 10s);
}
