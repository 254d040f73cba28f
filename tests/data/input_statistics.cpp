// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of a loader: tests/data/loader_threads.cpp.
#include <doctest/doctest.h>

#include <cordee/data/input_statistics.hpp>

using namespace cordee;

TEST_CASE("input_statistics names the longest stage where training waits, and only there") {
  input_statistics s{.updates = 10,
                     .samples = 640,
                     .threads = 2,
                     .elapsed = 10,
                     .waited = 4,
                     .busy = 16,
                     .augment = 1.6,
                     .reading = {.read = 2, .decode = 20, .resample = 8}};
  // The data set's 30 seconds are of two loaders; 14.4 of this one's are inside the data set.
  CHECK(s.describe() ==
        "waited for data 40 % of the time (4 of 10 s, 10 updates); 2 threads busy 80 %: read 6 %, "
        "decode 60 %, resample 24 %, augment 10 %; late: decode");
  s.reading.read = 100;
  CHECK(s.describe().ends_with("; late: read"));
  s.waited = 0.4;
  CHECK(s.describe().ends_with("; the data keep up"));
  s.waited = 4;
  s.reading = {};
  CHECK(s.describe().ends_with("2 threads busy 80 %; late: reading"));
  s.augment = 9;
  CHECK(s.describe().ends_with("; late: augment"));
  CHECK(input_statistics{}.describe().ends_with("; the data keep up"));
}

TEST_CASE("input_statistics: the upload has a line on a GPU, and is late where it never rests") {
  input_statistics s{.updates = 10,
                     .samples = 640,
                     .elapsed = 10,
                     .waited = 4,
                     .busy = 8,
                     .augment = 0,
                     .upload = 1.2,
                     .reading = {.read = 0, .decode = 8, .resample = 0}};
  CHECK(s.describe().ends_with(
      "1 thread busy 80 %: read 0 %, decode 100 %, resample 0 %, augment 0 %; upload busy 12 %; "
      "late: decode"));
  s.waited = 0.1;
  s.upload = 8.9;
  CHECK(s.describe().ends_with("; upload busy 89 %; the data keep up"));
  s.upload = 9.1;
  CHECK(s.describe().ends_with("; upload busy 91 %; late: upload"));
}
