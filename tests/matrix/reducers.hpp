// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every reducer, over every topology.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/cordee.hpp>

#include "erased.hpp"

namespace matrix {

using namespace cordee;

/// One that makes reducers of four ranks, or of one under self_comm.
struct named_reducer {
  std::string name;
  std::variant<maker<any_reducer<threads, agreement::exact, true, 0>>,
               maker<any_reducer<threads, agreement::exact, false, 0>>,
               maker<any_reducer<threads, agreement::exact, false, 2>>,
               maker<any_reducer<threads, agreement::exact, false, 2, true>>, maker<any_two_stage>,
               maker<any_reducer<threads, agreement::mixing, true, 0>>, maker<any_sharded>,
               maker<any_reducer<self_comm, agreement::exact, true, 0>>,
               maker<server<threads, asynchronous>>>
      make;
  double learning_rate = 1;  // times the optimizer's
};

/// Signs times the magnitude of a gradient, for the learning rates of mean gradients.
struct scaled_votes : majority_vote<threads> {
  void mix(bucket_view<float, cpu, 1> m, const step_info& info, cpu::stream s) const {
    majority_vote::mix(m, info, s);
    for (float& x : m.values) x *= 0.02f;
  }
};

/// Every exact reducer, and compressed{...} of each that is CompressibleOn.
inline std::vector<named_reducer> exact_reducers() {
  std::vector<named_reducer> all, compressed_ones;
  const auto add = [&](const std::string& name, auto make) {
    using R = decltype(make(std::declval<threads>()));
    all.push_back({name, over(make)});
    if constexpr (cordee::detail::comm::CompressibleOn<R, fp16, float, cpu>)
      compressed_ones.push_back({concat("compressed{", name, ", fp16}"), over([make](threads comm) {
                                   return compressed{make(comm), fp16{}};
                                 })});
  };
  add("ring", [](threads comm) { return ring{comm}; });
  add("tree", [](threads comm) { return tree{comm}; });
  add("butterfly", [](threads comm) { return butterfly{comm}; });
  add("halving_doubling", [](threads comm) { return halving_doubling{comm}; });
  add("one_shot", [](threads comm) { return one_shot{comm}; });
  add("two_shot", [](threads comm) { return two_shot{comm}; });
  add("native", [](threads comm) { return native{comm}; });
  add("hierarchical", [](threads comm) { return hierarchical{comm, nodes{2}}; });
  add("torus_ring", [](threads comm) { return torus_ring{comm}; });
  add("double_tree", [](threads comm) { return double_tree{comm}; });
  add("hybrid{tree, ring}", [](threads comm) { return hybrid{tree{comm}, ring{comm}, 128}; });
  add("server, synchronous", [](threads comm) { return server{comm}; });
  all.insert(all.end(), compressed_ones.begin(), compressed_ones.end());
  all.push_back({"compressed{ring, bf16}", over([](threads comm) {
                   return compressed{ring{comm}, bf16{}};
                 })});
  all.push_back({"compressed{ring, int8}", over([](threads comm) {
                   return compressed{ring{comm}, int8{}};
                 })});
  all.push_back({"gathered, top_k{0.1}", over([](threads comm) {
                   return gathered{comm, top_k{0.1}};
                 })});
  all.push_back({"gathered, scaled_sign", over([](threads comm) {
                   return gathered{comm, scaled_sign{}};
                 })});
  all.push_back({"power_sgd{ring}, rank 1", over([](threads comm) {
                   return power_sgd{ring{comm}, {.rank = 1}};
                 })});
  for (const int epoch : {10, 0})
    all.push_back(
        {concat("two_stage{ring, gathered, ", epoch, "}"), over([epoch](threads comm) {
           return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, static_cast<double>(epoch)};
         })});
  all.push_back({"majority_vote", over([](threads comm) { return scaled_votes{{comm}}; })});
  const auto add_sharded = [&](const std::string& name, auto make, bool masters = false) {
    all.push_back({name, over([=](threads comm) { return sharded{make(comm), masters}; })});
  };
  add_sharded("sharded{ring}", [](threads comm) { return ring{comm}; });
  add_sharded(
      "sharded{ring, masters}", [](threads comm) { return ring{comm}; }, true);
  add_sharded("sharded{torus_ring}", [](threads comm) { return torus_ring{comm}; });
  add_sharded("sharded{halving_doubling}", [](threads comm) { return halving_doubling{comm}; });
  add_sharded("sharded{two_shot}", [](threads comm) { return two_shot{comm}; });
  add_sharded("sharded{native}", [](threads comm) { return native{comm}; });
  // From the mean to four times that (orthogonal gradients), at half the learning rate.
  all.push_back({"adasum", over([](threads comm) { return adasum{comm}; }), 0.5});
  return all;
}

/// Gossip over every topology.
inline std::vector<named_reducer> gossip_reducers() {
  std::vector<named_reducer> all;
  const auto add = [&](const std::string& name, const auto& topology) {
    all.push_back({"gossip, " + name, over([topology](threads comm) {
                     return gossip{comm, topology};
                   })});
  };
  add("ring", topologies::ring{});
  add("torus2d", topologies::torus2d{});
  add("mesh2d", topologies::mesh2d{});
  add("star", topologies::star{});
  add("complete", topologies::complete{});
  add("hypercube", topologies::hypercube{});
  add("symmetric_exponential", topologies::symmetric_exponential{});
  add("exponential", topologies::exponential{});
  add("lazy{exponential, 0.09}", topologies::lazy{topologies::exponential{}, 0.09});
  add("one_peer", topologies::one_peer{});
  add("xor_matching", topologies::xor_matching{});
  add("odd_even", topologies::odd_even{});
  add("random_matching", topologies::random_matching{});
  add("lazy{random_matching, 0.5}", topologies::lazy{topologies::random_matching{}, 0.5});
  add("adjacency::metropolis, a path",
      topologies::adjacency::metropolis({{1}, {0, 2}, {1, 3}, {2}}));
  add("adjacency::weighted, a directed ring",
      topologies::adjacency::weighted(
          {{.5, 0, 0, .5}, {.5, .5, 0, 0}, {0, .5, .5, 0}, {0, 0, .5, .5}}));
  return all;
}

inline std::vector<named_reducer> all_reducers() {
  std::vector<named_reducer> all = exact_reducers();
  all.push_back({"server, asynchronous{1, 0}", over([](threads comm) {
                   return server{comm, asynchronous{1, 0}};
                 })});
  for (named_reducer& one : gossip_reducers()) all.push_back(std::move(one));
  all.push_back({"solo", over<self_comm>([](self_comm) { return solo{}; })});
  return all;
}
inline const std::vector<named_reducer> reducers = all_reducers();

}  // namespace matrix
