// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What training.py runs on hosts of the nccl transport: how its ranks find each other and end, over
// a test double of NCCL, which sends nothing between processes.
//
//   hosts_nccl starts [FILE]
//   hosts_nccl throws:RANK|dies:RANK FOLDER
//
// FILE: its rendezvous in the environment's place. Each rank prints "rank 1 of 3: GPU 0 of host1,
// communicators 7 8". When all have started, which FOLDER shows, that rank throws, or its process
// is killed, and the others wait for it.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

#include <cordee/comm/transports/nccl.hpp>

using namespace cordee;

namespace {

// As ncclGetUniqueId of another process would not: numbers that are rank 0's alone.
void take_ids(int count) {
  ncclUniqueId id;
  for (int k = 0; k < count; ++k) ncclGetUniqueId(&id);
}

// Returns when every rank has called it.
void await_all(const nccl& comm, const std::string& folder) {
  const auto file_of = [&](int rank) { return concat(folder, "/", rank); };
  std::fclose(std::fopen(file_of(comm.rank()).c_str(), "w"));
  for (int rank = 0; rank < comm.size(); ++rank)
    for (int k = 0; k < 4000 && ::access(file_of(rank).c_str(), F_OK) != 0; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void run_rank(const nccl& comm, std::string_view fault, int faulty, const std::string& folder) {
  int gpu = -1;
  cudaGetDevice(&gpu);
  std::string text = concat("rank ", comm.rank(), " of ", comm.size(), ": GPU ", gpu, " of ",
                            detail::comm::host_info::local().name, ", communicators");
  for (const std::string& id : nccl_double::ids) text += " " + id;
  std::puts(text.c_str());
  std::fflush(stdout);
  if (fault == "starts") return;
  await_all(comm, folder);
  if (comm.rank() == faulty && fault == "throws") throw error("the disk is full");
  if (comm.rank() == faulty) ::kill(::getpid(), SIGKILL);
  std::array<std::byte, 8> x{};
  const recv_op<cpu> from{faulty, {x.data(), x.size()}};
  comm.exchange(std::span<const send_op<cpu>>(), std::span(&from, 1), cpu::stream{});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  const std::size_t colon = std::min(mode.find(':'), mode.size());
  const std::string_view fault = mode.substr(0, colon);
  const int faulty = colon < mode.size() ? std::atoi(argv[1] + colon + 1) : -1;
  if (fault != "starts" && fault != "throws" && fault != "dies") throw usage_error("no such mode");
  nccl_double::is_only_rank = true;
  if (detail::comm::assignment_of_this_process().rank == 0) take_ids(6);
  const std::string path = argc > 2 ? argv[2] : "";
  const auto f = [&](const nccl& comm) { run_rank(comm, fault, faulty, path); };
  const nccl::options o{.deadline = std::chrono::seconds(20)};
  if (fault == "starts" && !path.empty())
    nccl::launch(f, rendezvous_file{path}, o);
  else
    nccl::launch(f, o);
} catch (const aborted&) {
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "hosts_nccl: %s\n", e.what());
  return 1;
}
