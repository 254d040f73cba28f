// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The text of a checker's errors.
#include <algorithm>

#include <cordee/core/concat.hpp>

#include "tests/checked/checker.hpp"

extern "C" const char __executable_start;  // of the linker

namespace checked {

namespace {

std::string describe_instruction(const void* pc) {
  return cordee::concat("instruction 0x", [&] {
    std::string digits;
    auto offset = static_cast<std::uintptr_t>(static_cast<const char*>(pc) - &__executable_start);
    for (; offset != 0; offset /= 16)
      digits.insert(digits.begin(), "0123456789abcdef"[offset % 16]);
    return digits;
  }());
}

}  // namespace

std::string checker::describe_thread(std::uint32_t interval, std::uint16_t thread) const {
  const auto block = block_of_interval_[interval - first_interval_];
  if (thread == access_history::many_threads)
    return cordee::concat("several threads of block ", block);
  return cordee::concat("thread ", thread, " of block ", block);
}
std::string checker::describe_place(const void* p) const {
  const resident_block& block = slots_[slot_];
  if (block.shared.contains(p))
    return cordee::concat("offset ", reinterpret_cast<std::uintptr_t>(p) - block.shared.first,
                          " of shared memory");
  if (!heap::contains(p)) return "outside the heap";
  constexpr std::size_t far = 1 << 20;
  const std::uint8_t* const state = heap::state_of(p);
  const std::size_t before = std::min(far, heap::offset_of(p));
  std::size_t back = 0;
  if ((*state & allocated) != 0) {
    while (back < before && (state[-static_cast<std::ptrdiff_t>(back) - 1] & allocated) != 0)
      ++back;
    return cordee::concat("offset ", back, " of an allocation");
  }
  while (back < before && (state[-static_cast<std::ptrdiff_t>(back)] & allocated) == 0) ++back;
  return cordee::concat(back, " bytes from the last byte of the allocation before it");
}
void checker::report(const char* kind, const void* p, const std::string& what, const void* pc) {
  constexpr std::size_t enough = 8;  // for one message
  for (const fault& f : faults_)
    if (f.pc == pc && f.kind == kind) return;
  if (faults_.size() >= enough) return;
  faults_.push_back(
      {kind, pc,
       cordee::concat(kind, ": ", describe_place(p), ", ", what, "; thread ", thread_, " of block ",
                      slots_[slot_].index, ", ", describe_instruction(pc))});
}

}  // namespace checked
