// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A pass of kernels under the checker: its rows of a table, and the bounds of its traffic.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "tests/checked/access_table.hpp"
#include "tests/checked/checker.hpp"

namespace checked {

/// The fewest bytes that a pass reads and writes, if each kernel that must see a tensor reads it
/// once. Batch norm's passes read theirs twice: for the statistics, and to use them.
struct formula {
  std::size_t read, written;
  double read_at_most = 1.1, written_at_most = 1.1;  // of these: partial sums, second reads
};

inline row row_of(const kernel_traffic& k) {
  const memory_traffic& t = k.total;
  return {t.global_load.ratio(),  t.global_store.ratio(), t.shared_load.ratio(),
          t.shared_store.ratio(), k.bytes.read,           k.bytes.written};
}

inline constexpr double bound = 1.1;  // of ideal

/// What the sectors of the main streams may be: arrays that have at least one in `share` of the
/// bytes that a kernel reads and writes.
struct stream_bound {
  double ratio = bound;
  std::size_t share = 100;
};

/// The wavefronts of shared memory, and the sectors of the main streams, of which kernels of less
/// than 2 KiB have none: their time is the launch's.
inline void check_ratios(const kernel_traffic& k, const stream_bound& most) {
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
inline void show_accesses(const std::string& name, const kernel_traffic& k) {
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

/// Runs the pass, adds its kernels' rows and compares its bytes with the formula.
template <class Pass>
void measure(table& rows, const std::string& name, const formula& fewest, const Pass& pass,
             const stream_bound& most = {}) {
  the_checker().start_recording();
  pass();
  row all;
  for (const auto& [kernel, traffic] : the_checker().stop_recording()) {
    const std::string key = name + "\t" + short_name(kernel);
    rows[key] = row_of(traffic);
    all.bytes_read += traffic.bytes.read;
    all.bytes_written += traffic.bytes.written;
    INFO(key);
    check_ratios(traffic, most);
    if (std::getenv("CORDEE_SHOW_ACCESSES") != nullptr) show_accesses(key, traffic);
  }
  all.formula_read = fewest.read;
  all.formula_written = fewest.written;
  rows[name + "\tall"] = all;
  INFO(name);
  CHECK(all.bytes_read >= fewest.read);
  CHECK(all.bytes_written >= fewest.written);
  CHECK(static_cast<double>(all.bytes_read) <=
        fewest.read_at_most * static_cast<double>(fewest.read));
  CHECK(static_cast<double>(all.bytes_written) <=
        fewest.written_at_most * static_cast<double>(fewest.written));
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
    CHECK(r.global_load <= most.global_load + rounding);
    CHECK(r.global_store <= most.global_store + rounding);
    CHECK(r.shared_load <= most.shared_load + rounding);
    CHECK(r.shared_store <= most.shared_store + rounding);
    CHECK(r.bytes_read <= most.bytes_read);
    CHECK(r.bytes_written <= most.bytes_written);
  }
}

}  // namespace checked
