// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/checked/traffic.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace checked {

namespace {

constexpr std::uintptr_t sector = 32, word = 4, banks = 32;

/// The distinct units of this many bytes that the accesses touch, in ascending order.
std::vector<std::uintptr_t> units(std::span<const trace_entry> lanes, std::uintptr_t bytes) {
  std::vector<std::uintptr_t> out;
  for (const trace_entry& e : lanes)
    for (auto u = e.address / bytes; u <= (e.address + e.bytes - 1) / bytes; ++u) out.push_back(u);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}
std::size_t rounded_up(std::size_t n, std::size_t each) { return (n + each - 1) / each; }

transactions count_sectors(std::span<const trace_entry> lanes) {
  const std::size_t bytes = units(lanes, 1).size();
  return {1, units(lanes, sector).size(), rounded_up(bytes, sector), bytes};
}
transactions count_wavefronts(std::span<const trace_entry> lanes) {
  const auto words = units(lanes, word);
  std::array<std::size_t, banks> of_bank{};
  for (const std::uintptr_t w : words) ++of_bank[w % banks];
  return {1, *std::max_element(of_bank.begin(), of_bank.end()), rounded_up(words.size(), banks),
          word * words.size()};
}

}  // namespace

transactions& transactions::operator+=(const transactions& other) {
  requests += other.requests;
  made += other.made;
  ideal += other.ideal;
  bytes += other.bytes;
  return *this;
}
transactions& memory_traffic::of(const trace_entry& e) {
  return e.is_shared ? (e.is_write ? shared_store : shared_load)
                     : (e.is_write ? global_store : global_load);
}

transactions count_transactions(std::span<const trace_entry> lanes) {
  if (!lanes.front().is_shared) return count_sectors(lanes);
  // 8 bytes a lane take two halves of a warp, 16 bytes four quarters.
  const std::size_t together =
      std::min<std::size_t>(32, 32 * word / std::max<std::size_t>(word, lanes.front().bytes));
  transactions out{};
  std::vector<trace_entry> part;
  for (std::size_t first = 0; first < 32; first += together) {
    part.clear();
    for (const trace_entry& e : lanes)
      if (e.lane >= first && e.lane < first + together) part.push_back(e);
    if (!part.empty()) out += count_wavefronts(part);
  }
  out.requests = 1;
  return out;
}

transactions count_ldmatrix(std::span<const std::uintptr_t> rows) {
  transactions out{};
  for (std::size_t first = 0; first < rows.size(); first += 8) {
    std::vector<trace_entry> matrix;
    for (const std::uintptr_t offset : rows.subspan(first, 8))
      matrix.push_back({nullptr, offset, 16, 0, false, true});
    out += count_wavefronts(matrix);
  }
  out.requests = 1;
  return out;
}

std::uintptr_t allocation_at(const allocation_map& arrays, std::uintptr_t address) {
  const auto behind = arrays.upper_bound(address);
  if (behind == arrays.begin()) return 0;
  const auto& [first, last] = *std::prev(behind);
  return address < last ? first : 0;
}

void add_requests(std::span<const thread_trace> lanes, const allocation_map& arrays,
                  launch_traffic& out) {
  std::array<std::size_t, 32> next{};
  std::vector<trace_entry> request;
  for (;;) {
    const void* lowest = nullptr;
    for (std::size_t l = 0; l < lanes.size(); ++l)
      if (next[l] < lanes[l].size() && (lowest == nullptr || lanes[l][next[l]].pc < lowest))
        lowest = lanes[l][next[l]].pc;
    if (lowest == nullptr) return;
    request.clear();
    for (std::size_t l = 0; l < lanes.size(); ++l)
      if (next[l] < lanes[l].size() && lanes[l][next[l]].pc == lowest)
        request.push_back(lanes[l][next[l]++]);
    if (request.front().bytes == 0) continue;
    const transactions made = count_transactions(request);
    out.total.of(request.front()) += made;
    out.by_instruction[lowest].of(request.front()) += made;
    if (request.front().is_shared) continue;
    array_traffic& array = out.by_array[allocation_at(arrays, request.front().address)];
    (request.front().is_write ? array.store : array.load) += made;
  }
}

}  // namespace checked
