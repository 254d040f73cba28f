// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Times two implementations of one operation in turn on a GPU, and compares their results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>

#include "benchmarks/options.hpp"
#include "benchmarks/stopwatch.hpp"

namespace bench {

using cordee::buffer;
using cordee::gpu;

struct times {
  std::vector<double> microseconds;
  [[nodiscard]] double least() const { return *std::ranges::min_element(microseconds); }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = microseconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

class comparison {
 public:
  explicit comparison(int reps) : reps_(reps) {}
  gpu device;
  gpu::stream s = device.make_stream();

  template <class T>
  [[nodiscard]] buffer<T, gpu> upload(const std::vector<T>& host) const {
    buffer<T, gpu> b(device, host.size());
    device.copy(b.span().data, host.data(), host.size() * sizeof(T), s);
    return b;
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(const buffer<T, gpu>& b) const {
    return cordee::copy_to_host<T, gpu>(device, {b.span().data, b.span().size}, s);
  }
  /// f(scratch, its size), a call of CUB, as a function that has the scratch.
  template <class F>
  [[nodiscard]] auto with_scratch(const F& f) const {
    std::size_t size = 0;
    cuda_check(f(nullptr, size), "cub: scratch");
    auto memory = std::make_shared<buffer<char, gpu>>(device, size);
    return [=]() mutable { cuda_check(f(memory->span().data, size), "cub"); };
  }
  /// Runs each once, compares by equal(), and times them in turn. `host`: ours runs there.
  template <class Ours, class Theirs, class Equal>
  void add(const std::string& name, std::size_t n, bool host, Ours&& ours, Theirs&& theirs,
           const Equal& equal) {
    const int calls = n > 10'000'000 ? 1 : 20;
    ours(), theirs();
    const bool same = equal();
    const auto captured = [&](auto& f) {
      return device.capture(s, [&] {
        for (int k = 0; k < calls; ++k) f();
      });
    };
    const auto graph_of_theirs = captured(theirs);
    const auto graph_of_ours = host ? gpu::graph() : captured(ours);
    const int host_reps = n > 10'000'000 ? 1 : 3;
    times a, b;
    for (int rep = -2; rep < reps_; ++rep) {
      double of_ours = 0;
      if (!host) of_ours = timer_(s, [&] { device.replay(graph_of_ours, s); }) / calls;
      if (host && 0 <= rep && rep < host_reps) {
        const double begin = now();
        ours();
        of_ours = now() - begin;
      }
      const double of_theirs = timer_(s, [&] { device.replay(graph_of_theirs, s); }) / calls;
      if (rep >= 0 && of_ours > 0) a.microseconds.push_back(1e6 * of_ours);
      if (rep >= 0) b.microseconds.push_back(1e6 * of_theirs);
    }
    const double ratio = b.least() / a.least();
    std::printf(
        "{\"primitive\": \"%s\", \"size\": %zu, \"ours\": %.2f, \"theirs\": %.2f, "
        "\"ours_median\": %.2f, \"theirs_median\": %.2f, \"ratio\": %.3f, \"within\": %s}\n",
        name.c_str(), n, a.least(), b.least(), a.median(), b.median(), ratio,
        same ? "true" : "false");
    std::fflush(stdout);
    char line[200];
    std::snprintf(line, sizeof line, "| %s | %zu | %.2f (%.2f) | %.2f (%.2f) | %.3f |\n",
                  name.c_str(), n, a.least(), a.median(), b.least(), b.median(), ratio);
    table_ += line;
    differ_ += same ? 0 : 1;
  }
  void print_table() const {
    std::printf(
        "| primitive | size | ours, us (median) | CUB/Thrust, us (median) | CUB/Thrust over ours "
        "|\n"
        "|---|---|---|---|---|\n%s",
        table_.c_str());
    if (differ_ != 0)
      throw cordee::error(cordee::concat("gpu_primitives: ", differ_, " results differ"));
  }

 private:
  int reps_, differ_ = 0;
  stopwatch timer_;
  std::string table_;
};

}  // namespace bench
