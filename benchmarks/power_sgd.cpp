// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-50's gradient (102 MB, bucket by bucket) over ZeroMQ: power_sgd beside the reducer inside.
// Ranks are those of the environment; a slow network between them by scripts/hosts:
//
//   sudo scripts/hosts 4 --rate 1gbit -- build/release/bench_power_sgd [RANK [REPS [BUCKET_BYTES]]]
//
// Interleaved repetitions; prints what the slowest rank took, the least, and what the simulated
// transport predicts for messages alone, at 1 Gbit/s and 50 microseconds.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <span>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/power_sgd.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/simulated.hpp>
#include <cordee/comm/simulated/step.hpp>
#include <cordee/comm/zeromq.hpp>
#include <cordee/core/random.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>

using namespace cordee;

namespace {

std::vector<segment> table() {
  using net = resnet<50, fp32, cpu>;
  const std::span<const segment> all = net::segments();
  return {all.begin(), all.begin() + detail::core::count_trainable(all)};
}

template <class R>
class gradient_exchange {
 public:
  gradient_exchange(const R& reducer, std::span<const bucket> buckets) : reducer_(reducer) {
    std::size_t n = 0;
    for (const bucket& b : buckets) n = std::max(n, b.offset + b.size);
    x_.resize(n);
    slots_.fill(x_);
    scratch_.resize(detail::comm::largest_scratch<float>(reducer, buckets));
    random_sequence random(1, purpose::test, static_cast<std::uint64_t>(reducer.comm.rank()), 0);
    for (float& v : x_) v = static_cast<float>(random.uniform() - 0.5);
  }
  /// Seconds of the slowest rank.
  double time(std::span<const bucket> buckets, std::int64_t step) {
    std::array<double, 1> slowest{};
    allreduce_host(reducer_.comm, slowest, reduce_op::max);  // they begin together
    const auto start = std::chrono::steady_clock::now();
    for (const bucket& b : buckets) {
      bucket_view<float, cpu, R::slots> m{
          &b, {x_.data() + b.offset, b.size}, {}, {scratch_.data(), scratch_.size()}};
      for (std::size_t k = 0; k < m.slots.size(); ++k)
        m.slots[k] = {slots_[k].data() + b.offset, b.size};
      reducer_.mix(m, step_info{.step = step}, cpu::stream{});
    }
    slowest[0] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    allreduce_host(reducer_.comm, slowest, reduce_op::max);
    return slowest[0];
  }

 private:
  R reducer_;
  std::vector<float> x_;
  std::array<std::vector<float>, static_cast<std::size_t>(R::slots)> slots_;
  std::vector<std::byte> scratch_;
};

template <class Make>
double predicted(int ranks, std::size_t bucket_bytes, const Make& make) {
  step_profile step;
  step.table = table();
  step.backward.resize(step.table.size());
  return simulate_steps(ranks, step, make,
                        {.network = {.link = {.latency = 50e-6, .bandwidth = 125e6}}},
                        {.bucket_bytes = bucket_bytes})
      .seconds;
}

void measure(const zeromq& comm, int rank, int reps, std::size_t bucket_bytes) {
  const std::vector<segment> segments = table();
  const auto buckets = detail::core::make_buckets(segments, bucket_bytes / sizeof(float));
  const power_sgd compressed{ring{comm}, {.rank = rank}};
  gradient_exchange whole(ring{comm}, buckets);
  gradient_exchange low_rank(compressed, buckets);
  std::array<double, 2> least;
  least.fill(std::numeric_limits<double>::infinity());
  for (int k = 0; k < reps; ++k) {
    least[0] = std::min(least[0], whole.time(buckets, k));
    least[1] = std::min(least[1], low_rank.time(buckets, k));
  }
  if (comm.rank() != 0) return;
  std::printf("%d ranks, %zu buckets: ring %.4f s, power_sgd of rank %d %.4f s: %.3f\n",
              comm.size(), buckets.size(), least[0], rank, least[1], least[1] / least[0]);
  const auto make_ring = [](auto c) { return ring{c}; };
  const auto make_low_rank = [rank](auto c) { return power_sgd{ring{c}, {.rank = rank}}; };
  const double of_ring = predicted(comm.size(), bucket_bytes, make_ring),
               of_low_rank = predicted(comm.size(), bucket_bytes, make_low_rank);
  std::printf("simulated, messages alone: ring %.4f s, power_sgd %.4f s: %.3f\n", of_ring,
              of_low_rank, of_low_rank / of_ring);
}

}  // namespace

int main(int argc, char** argv) try {
  const int rank = argc > 1 ? std::atoi(argv[1]) : 4, reps = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::size_t bucket_bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 25u << 20;
  zeromq::launch([&](zeromq comm) { measure(comm, rank, reps, bucket_bytes); }, {.listen = "*"});
} catch (const std::exception& e) {
  std::fprintf(stderr, "power_sgd: %s\n", e.what());
  return 1;
}
