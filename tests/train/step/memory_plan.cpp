// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a run states before its first step, beside what it allocates; on an emulated GPU it is
// tests/train/trainer_emulated.cpp, of a sharded update tests/train/step/shard.cpp.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/nn/sharpness_aware.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe_memory.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/skip.hpp"

using namespace cordee;
using namespace cordee::detail;

namespace {

constexpr int samples = 16;
template <class P, bool Recompute, int Depth = 8>
using net_of =
    resnet<Depth, P, cpu, resnet_options{.image = {3, 16, 16}, .recompute = Recompute}, reference>;
using plain_net = net_of<fp32, false>;
constexpr constant steady{0.05};
auto run_of(plain_net& net) { return trainer{net, lars{}, steady, ring{self_comm{}}}; }

/// The bytes in the line that begins with `name`.
std::size_t bytes_in(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines)
    if (line.starts_with(name)) {
      std::string digits;
      for (const char c : line.substr(name.size()))
        if (c >= '0' && c <= '9')
          digits += c;
        else if (c == 'b')
          break;
      return std::stoul(digits);
    }
  return 0;
}
std::vector<std::string> lines_of(auto& run, int micro, int ranks, int of_micro_batch = samples) {
  std::vector<std::string> lines;
  train::describe_memory(run, of_micro_batch, micro, ranks,
                         [&](std::string_view name, const std::string& value) {
                           lines.push_back(concat(name, ": ", value));
                         });
  return lines;
}

}  // namespace

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("memory_plan: a run on the CPU allocates what it states") {
  const auto in_use = [] {
    const struct ::mallinfo2 m = ::mallinfo2();
    return static_cast<double>(m.uordblks + m.hblkhd);
  };
  const std::vector<std::uint8_t> pixels(samples * plain_net::input.size(), 7);
  const std::vector<std::int32_t> labels(samples, 3);
  const batch<cpu> images{
      {pixels.data(), pixels.size()}, {labels.data(), labels.size()}, samples, samples, 1, {}};
  const double before = in_use();
  plain_net net{cpu(1)};
  trainer run = run_of(net);
  for (int k = 0; k < 2; ++k) (void)run.step(std::array{images}, 0);
  const auto stated = static_cast<double>(run.plan_memory(samples).total());
  // Of 50 buffers each is rounded up to a page, and has a page of its allocator's.
  constexpr double rounding = 50 * 2 * 4096;
  INFO(run.plan_memory(samples).describe());
  CHECK(in_use() - before <= stated + rounding);
  CHECK(in_use() - before >= stated - rounding);
  // A plane of the weights is more than that.
  CHECK(rounding < static_cast<double>(2 * plain_net::plane_size() * sizeof(float)));

  for (const int period : {1, 2}) {  // beside the same run without
    CAPTURE(period);
    const double between = in_use();
    sharpness_aware<plain_net> uphill{{.period = period}, plain_net{cpu(1)}};
    trainer climbs{uphill, lars{}, steady, ring{self_comm{}}};
    for (int k = 0; k < 2; ++k) (void)climbs.step(std::array{images}, 0);
    const std::size_t more = climbs.plan_memory(samples).total() - run.plan_memory(samples).total();
    CHECK(more == uphill.uphill_bytes());
    // Of 5 buffers, and of small vectors that both runs have.
    constexpr double of_buffers = 6 * 2 * 4096;
    const double found = (in_use() - between) - (between - before);
    CHECK(std::abs(found - static_cast<double>(more)) <= of_buffers);
  }
}
#else
TEST_CASE("memory_plan: a run on the CPU allocates what it states") {
  support::skip("only glibc, without a sanitizer, counts what is allocated");
}
#endif

TEST_CASE("memory_plan: describe has the total with and without each policy") {
  plain_net net{cpu(1)};
  trainer run = run_of(net);
  const auto lines = lines_of(run, 2, 8);
  const std::size_t total = run.plan_memory(samples).total();
  CHECK(bytes_in(lines, "peak: ") == total);
  const std::size_t slots = plain_net::plane_size() * sizeof(float);
  CHECK(run.plan_memory(samples).bytes("optimizer slots") == slots);

  net_of<fp32, false, 20> deep{cpu(1)};  // in which recompute saves memory
  net_of<fp32, true, 20> recomputed{cpu(1)};
  trainer in_full{deep, lars{}, steady, ring{self_comm{}}};
  trainer with_recompute{recomputed, lars{}, steady, ring{self_comm{}}};
  CHECK(bytes_in(lines_of(in_full, 1, 1), "  with: recompute ") ==
        with_recompute.plan_memory(samples).total());
  CHECK(bytes_in(lines_of(with_recompute, 1, 1), "  without: recompute ") ==
        in_full.plan_memory(samples).total());

  net_of<bf16, false> halves{cpu(1)};
  trainer in_halves{halves, lars{}, steady, ring{self_comm{}}};
  const auto of_halves = static_cast<double>(in_halves.plan_memory(samples).total());
  const auto stated = static_cast<double>(bytes_in(lines, "  with: fp16 or bf16 "));
  CHECK(stated == doctest::Approx(of_halves).epsilon(0.02));

  CHECK(bytes_in(lines, "  with: micro-batches of 8 ") == run.plan_memory(samples / 2).total());
  CHECK(bytes_in(lines, "  without: accumulation ") == run.plan_memory(2 * samples).total());
  CHECK(bytes_in(lines, "  with: sharded ") == total - slots + 2 * slots / 8);
  CHECK(bytes_in(lines_of(run, 1, 1), "  with: sharded ") == 0);
}

TEST_CASE("memory_plan: describe offers no policy that saves nothing, none that is refused") {
  net_of<bf16, false> net{cpu(1)};
  trainer run{net, lars{}, steady, ring{self_comm{}}};
  // Here recompute takes more.
  for (const int n : {1, 2, samples}) {
    CAPTURE(n);
    const auto lines = lines_of(run, 1, 8, n);
    const std::size_t total = run.plan_memory(n).total();
    for (const char* policy : {"recompute ", "fp16 or bf16 ", "sharded "})
      CHECK(bytes_in(lines, concat("  with: ", policy)) < total);
  }
  CHECK(bytes_in(lines_of(run, 1, 8), "  with: sharded ") > 0);
  trainer whole_rows{net, adamp{}, steady, ring{self_comm{}}};
  CHECK(bytes_in(lines_of(whole_rows, 1, 8), "  with: sharded ") == 0);
  trainer local{net, local_steps{lars{}, 4}, steady, ring{self_comm{}}};
  CHECK(bytes_in(lines_of(local, 1, 8), "  with: sharded ") == 0);
}
