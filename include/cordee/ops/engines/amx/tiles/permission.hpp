// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether this process may use AMX's tiles. Linux grants their 8 KiB of registers on request, to
// all threads of a process at once (arch_prctl, since 5.16); without it the first instruction that
// touches one ends the process by SIGILL. A kernel, a hypervisor or a container may refuse.
#pragma once

#include <cerrno>
#include <cstdio>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct tile_permission {
  bool granted;
  const char* reason;  ///< Why it is not; empty if it is.
};

/// Asks the processor, then the system.
inline tile_permission request_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool saves = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & 1u << 27) != 0;  // OSXSAVE
  constexpr unsigned tiles = 1u << 24, bytes = 1u << 25, bf16 = 1u << 22,
                     all = tiles | bytes | bf16;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & all) != all)
    return {false, "the processor, or the hypervisor, has no AMX with bytes and bf16"};
  [[maybe_unused]] unsigned low = 0, high = 0;
  if (saves) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned state = 1u << 17 | 1u << 18;  // XTILECFG, XTILEDATA
  if ((low & state) != state)
    return {false,
            "the kernel does not save AMX's registers: it is older than Linux 5.16, or "
            "clearcpuid or a hypervisor switches them off"};
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, request, tile_data) != 0)
    return {false, errno == ENOSPC
                       ? "the kernel refuses AMX's registers: a thread's signal stack "
                         "(sigaltstack) is too small for them"
                       : "the kernel refuses AMX's registers (arch_prctl ARCH_REQ_XCOMP_PERM)"};
  return {true, ""};
#else
  return {false, "AMX is of x86-64, and its registers are requested of Linux"};
#endif
}

/// The answer of the first request in this process.
inline const tile_permission& tiles_of_process() {
  static const tile_permission answer = request_tiles();
  return answer;
}
/// Says once on stderr why not.
inline bool tiles_permitted() {
  static const bool granted = [] {
    const tile_permission& answer = tiles_of_process();
    if (!answer.granted)
      std::fprintf(stderr, "cordee: compiled for AMX, and runs without: %s\n", answer.reason);
    return answer.granted;
  }();
  return granted;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
