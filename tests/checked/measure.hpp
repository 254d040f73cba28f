// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A pass of kernels under the checker: its rows of a table, and the bounds of its traffic.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/checked/access_table.hpp"
#include "tests/checked/checker.hpp"

namespace checked {

/// The bytes of global memory that a launch must read and write, each once, by the shapes of its
/// tensors; partial sums are of the launch that writes them, and of that which reads them. What it
/// may request is more where several warps, or sweeps, are meant to read a byte.
struct formula {
  std::size_t read, written, requested = read;
};

inline row row_of(const launch_traffic& k, const formula& fewest) {
  const memory_traffic& t = k.total;
  return {{t.global_load.ratio(), t.global_store.ratio(), t.shared_load.ratio(),
           t.shared_store.ratio()},
          {k.bytes.read, t.global_load.bytes, k.bytes.written},
          {fewest.read, fewest.requested, fewest.written}};
}

inline constexpr double bound = 1.1;  // of ideal, and of formulas

/// What the sectors of the main streams may be: arrays that have at least one in `share` of the
/// bytes that a kernel reads and writes.
struct stream_bound {
  double ratio = bound;
  std::size_t share = 100;
};

/// The wavefronts of shared memory, and the sectors of the main streams, of which kernels of less
/// than 2 KiB have none: their time is the launch's.
inline void check_ratios(const launch_traffic& k, const stream_bound& most) {
  CHECK(k.total.shared_load.ratio() <= bound);
  CHECK(k.total.shared_store.ratio() <= bound);
  if (k.bytes.sum() < 2048) return;
  std::size_t streams = 0;
  for (const auto& [address, array] : k.by_array) {
    if (most.share * array.bytes.sum() < k.bytes.sum()) continue;
    ++streams;
    INFO("an array of which ", array.bytes.read, " bytes are read and ", array.bytes.written,
         " are written");
    CHECK(array.load.ratio() <= most.ratio);
    CHECK(array.store.ratio() <= most.ratio);
  }
  CHECK(streams > 0);
}
/// No byte is written twice.
inline void check_bytes(const launch_traffic& k, const formula& fewest) {
  const auto is_within = [](std::size_t bytes, std::size_t of) {
    return static_cast<double>(bytes) <= bound * static_cast<double>(of);
  };
  INFO("read ", k.bytes.read, ", formula ", fewest.read);
  INFO("requested ", k.total.global_load.bytes, ", formula ", fewest.requested);
  INFO("written ", k.bytes.written, ", formula ", fewest.written);
  CHECK(k.bytes.read >= fewest.read);
  CHECK(k.bytes.written >= fewest.written);
  CHECK(is_within(k.bytes.read, fewest.read));
  CHECK(is_within(k.total.global_load.bytes, fewest.requested));
  CHECK(is_within(k.bytes.written, fewest.written));
  CHECK(k.total.global_store.bytes == k.bytes.written);
}
inline void show_accesses(const std::string& name, const launch_traffic& k) {
  const auto show = [&](const void* pc, const char* kind, const transactions& t) {
    if (t.ratio() > bound)
      std::printf("%-44s %p %-12s %8zu requests %8zu made %8zu ideal  %.2f\n", name.c_str(), pc,
                  kind, t.requests, t.made, t.ideal, t.ratio());
  };
  for (const auto& [pc, t] : k.by_instruction) {
    show(pc, "global load", t.global_load);
    show(pc, "global store", t.global_store);
    show(pc, "shared load", t.shared_load);
    show(pc, "shared store", t.shared_store);
  }
}

/// Runs the pass, adds the rows of its launches, and compares each with its formula.
template <class Pass>
void measure(table& rows, const std::string& name, const std::vector<formula>& of_launches,
             const Pass& pass, const stream_bound& most = {}) {
  the_checker().start_recording();
  pass();
  const std::vector<launch_traffic> launches = the_checker().stop_recording();
  INFO(name);
  REQUIRE(launches.size() == of_launches.size());
  for (std::size_t k = 0; k < launches.size(); ++k) {
    const std::string first = name + "\t" + short_name(launches[k].kernel);
    std::string key = first;
    for (int again = 2; rows.contains(key); ++again) key = first + " " + std::to_string(again);
    rows[key] = row_of(launches[k], of_launches[k]);
    INFO(key);
    check_ratios(launches[k], most);
    check_bytes(launches[k], of_launches[k]);
    if (std::getenv("CORDEE_SHOW_ACCESSES") != nullptr) show_accesses(key, launches[k]);
  }
}
/// Of one launch.
template <class Pass>
void measure(table& rows, const std::string& name, const formula& of_launch, const Pass& pass,
             const stream_bound& most = {}) {
  measure(rows, name, std::vector{of_launch}, pass, most);
}

/// No row has more than the table of this path has, and none is missing. CORDEE_REWRITE_TABLE=1
/// writes the table.
inline void compare_with_table(const table& rows, const std::string& path) {
  if (std::getenv("CORDEE_REWRITE_TABLE") != nullptr) return write(rows, path);
  const table recorded = read(path);
  for (const auto& [key, r] : recorded) {
    INFO("recorded ", format(key, r));
    CHECK(rows.contains(key));
  }
  constexpr double rounding = 0.0006;  // of the table
  for (const auto& [key, r] : rows) {
    INFO("measured ", format(key, r), "; CORDEE_REWRITE_TABLE=1 writes the table");
    REQUIRE(recorded.contains(key));
    const row& most = recorded.at(key);
    for (std::size_t k = 0; k < r.ratios.size(); ++k)
      CHECK(r.ratios[k] <= most.ratios[k] + rounding);
    for (std::size_t k = 0; k < r.bytes.size(); ++k) CHECK(r.bytes[k] <= most.bytes[k]);
    CHECK(r.formula == most.formula);
  }
}

}  // namespace checked
