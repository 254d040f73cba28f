// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/host_info.hpp>

using namespace cordee;
using detail::comm::node_info, detail::comm::host_info;

namespace {

host_info on(const std::string& name, const std::string& boot_id, const std::vector<int>& cores) {
  host_info host{};
  name.copy(host.name, sizeof host.name - 1);
  boot_id.copy(host.boot_id, sizeof host.boot_id - 1);
  CPU_ZERO(&host.cores);
  for (const int core : cores) CPU_SET(core, &host.cores);
  return host;
}

}  // namespace

TEST_CASE("node_info: ranks of one node share the cores on which any of them may run") {
  const std::vector hosts{on("a", "1", {0, 1}), on("b", "1", {0, 1, 2, 3, 4, 5}),
                          on("a", "1", {2, 3}), on("a", "2", {7}), on("a", "1", {3})};
  const node_info first = node_info::of(0, hosts), last = node_info::of(4, hosts),
                  single = node_info::of(3, hosts);
  CHECK(first.local_size == 3);
  CHECK(first.local_rank == 0);
  CHECK(first.cores == 4);
  CHECK(first.cores_per_rank() == 1);
  CHECK(last.local_rank == 2);
  CHECK(last.cores == 4);
  CHECK(single.local_size == 1);  // the same name and another boot
  CHECK(single.cores_per_rank() == 1);
  CHECK(node_info::of(1, hosts).cores_per_rank() == 6);
}

TEST_CASE("node_info: ranks to which the launcher shows different GPUs do not share them") {
  std::vector hosts(4, on("a", "1", {0}));
  hosts[1].visible_gpus = hosts[3].visible_gpus = 7;
  const node_info last = node_info::of(3, hosts);
  CHECK(last.local_rank == 3);
  CHECK(last.gpu_rank == 1);
  CHECK(last.gpu_size == 2);
  CHECK(node_info::of(2, hosts).gpu_rank == 1);
  CHECK(node_info::of(2, hosts).gpu_size == 2);
}

TEST_CASE("host_info: ranks that see different GPUs under the same ordinal do not share them") {
  static std::string listed;  // by this process's runtime
  const auto seen_as = [](const char* gpus) {
    listed = gpus;
    return host_info::local();
  };
  const auto before = std::exchange(
      detail::device::list_visible_gpus, +[] { return listed; });
  const std::vector hosts{seen_as("0000:17:00.0 "), seen_as("0000:65:00.0 "),
                          seen_as("0000:17:00.0 ")};
  detail::device::list_visible_gpus = before;
  CHECK(node_info::of(1, hosts).local_size == 3);
  CHECK(node_info::of(1, hosts).gpu_size == 1);
  CHECK(node_info::of(1, hosts).gpu_rank == 0);
  CHECK(node_info::of(2, hosts).gpu_size == 2);
  CHECK(node_info::of(2, hosts).gpu_rank == 1);
}

TEST_CASE("host_info: two queries of a process are the same node") {
  const host_info host = host_info::local();
  CHECK(host.same_node(host_info::local()));
  CHECK(host.name[0] != '\0');
  CHECK(host.boot_id[0] != '\0');
  CHECK(node_info::of(0, {&host, 1}).cores >= 1);
}
