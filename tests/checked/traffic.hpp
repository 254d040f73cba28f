// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of a kernel as the hardware of a GPU counts it, from the addresses that its
// lanes access.
//
// A request is one instruction of the lanes of a warp that execute it together. Lanes that take
// different ways meet again: of the lanes' next instructions the one at the lowest address is
// executed first, which is right as long as the compiler places the code behind a loop behind it.
// An access is what the source asks for; nvcc may split it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace checked {

/// One step of a thread: an access, or (bytes == 0) the beginning of a basic block.
struct trace_entry {
  const void* pc;
  std::uintptr_t address;  // in shared memory: the offset
  std::uint8_t bytes, lane;
  bool is_write, is_shared;
};
using thread_trace = std::vector<trace_entry>;

/// Transactions beside the fewest for the same bytes: 32-byte sectors of global memory; wavefronts
/// of shared memory, which give each of 32 banks one word.
struct transactions {
  std::size_t requests = 0, made = 0, ideal = 0, bytes = 0;
  [[nodiscard]] double ratio() const {
    return ideal == 0 ? 1 : static_cast<double>(made) / static_cast<double>(ideal);
  }
  transactions& operator+=(const transactions& other);
};

struct memory_traffic {
  transactions global_load, global_store, shared_load, shared_store;
  transactions& of(const trace_entry& e);
};
/// Bytes of global memory that a launch reads and writes, each counted once.
struct byte_count {
  std::size_t read = 0, written = 0;
  [[nodiscard]] std::size_t sum() const { return read + written; }
};
/// The traffic of one allocation of global memory.
struct array_traffic {
  transactions load, store;
  byte_count bytes;
};
struct launch_traffic {
  std::string kernel;  // its type
  memory_traffic total;
  std::map<const void*, memory_traffic> by_instruction;
  std::map<std::uintptr_t, array_traffic> by_array;  // by the allocation's address
  byte_count bytes;
};

/// The transactions of one request.
transactions count_transactions(std::span<const trace_entry> lanes);
/// The rows of one ldmatrix: four times eight rows of 16 bytes, by their offsets.
transactions count_ldmatrix(std::span<const std::uintptr_t> rows);

/// Allocations of global memory: the first address of each, and the one behind its last.
using allocation_map = std::map<std::uintptr_t, std::uintptr_t>;
/// The address of the allocation that contains this one; 0 if none does.
std::uintptr_t allocation_at(const allocation_map& arrays, std::uintptr_t address);

/// Adds the requests of up to 32 lanes.
void add_requests(std::span<const thread_trace> lanes, const allocation_map& arrays,
                  launch_traffic& out);

}  // namespace checked
