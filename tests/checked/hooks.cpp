// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The functions that code compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc calls.
// The linker replaces memcpy, memmove and memset by those here (--wrap), as they are not
// instrumented.
#include <cstddef>
#include <cstdint>

#include "tests/checked/checker.hpp"

namespace {

using checked::code;
using checked::running;

inline void access(const void* p, std::size_t bytes, bool is_write, bool is_vector,
                   const void* pc) {
  if (running == code::kernel)
    checked::the_checker().access(p, bytes, is_write, is_vector, pc);
  else if (running == code::host && is_write)
    checked::heap::define(p, bytes);
}

const bool installed = [] {
  support::observer = &checked::the_checker();
  return true;
}();

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __sanitizer_cov_trace_pc() {
  if (running == code::kernel) checked::the_checker().basic_block(__builtin_return_address(0));
}

#define CHECKED_ACCESS(BYTES)                                         \
  void __tsan_read##BYTES(void* p) {                                  \
    access(p, BYTES, false, true, __builtin_return_address(0));       \
  }                                                                   \
  void __tsan_write##BYTES(void* p) {                                 \
    access(p, BYTES, true, true, __builtin_return_address(0));        \
  }                                                                   \
  void __tsan_unaligned_read##BYTES(void* p) {                        \
    access(p, BYTES, false, false, __builtin_return_address(0));      \
  }                                                                   \
  void __tsan_unaligned_write##BYTES(void* p) {                       \
    access(p, BYTES, true, false, __builtin_return_address(0));       \
  }
CHECKED_ACCESS(1)
CHECKED_ACCESS(2)
CHECKED_ACCESS(4)
CHECKED_ACCESS(8)
CHECKED_ACCESS(16)
#undef CHECKED_ACCESS

void __tsan_read_range(void* p, std::size_t bytes) {
  access(p, bytes, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, std::size_t bytes) {
  access(p, bytes, true, false, __builtin_return_address(0));
}

void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  if (running != code::emulator && bytes != 0) {
    access(from, bytes, false, false, __builtin_return_address(0));
    access(to, bytes, true, false, __builtin_return_address(0));
  }
  return __real_memcpy(to, from, bytes);
}
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  if (running != code::emulator && bytes != 0) {
    access(from, bytes, false, false, __builtin_return_address(0));
    access(to, bytes, true, false, __builtin_return_address(0));
  }
  return __real_memmove(to, from, bytes);
}
void* __real_memset(void* to, int value, std::size_t bytes);
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  if (running != code::emulator && bytes != 0)
    access(to, bytes, true, false, __builtin_return_address(0));
  return __real_memset(to, value, bytes);
}

// Of the tests' own atomic variables; kernels have none.
#define CHECKED_ATOMIC(BITS)                                                                     \
  using uint##BITS = std::uint##BITS##_t;                                                        \
  uint##BITS __tsan_atomic##BITS##_load(const volatile uint##BITS* a, int) {                     \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                              \
  void __tsan_atomic##BITS##_store(volatile uint##BITS* a, uint##BITS v, int) {                  \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_exchange(volatile uint##BITS* a, uint##BITS v, int) {         \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                          \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_fetch_add(volatile uint##BITS* a, uint##BITS v, int) {        \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_fetch_sub(volatile uint##BITS* a, uint##BITS v, int) {        \
    return __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_fetch_and(volatile uint##BITS* a, uint##BITS v, int) {        \
    return __atomic_fetch_and(a, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_fetch_or(volatile uint##BITS* a, uint##BITS v, int) {         \
    return __atomic_fetch_or(a, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_fetch_xor(volatile uint##BITS* a, uint##BITS v, int) {        \
    return __atomic_fetch_xor(a, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                              \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile uint##BITS* a, uint##BITS* c,       \
                                                    uint##BITS v, int, int) {                    \
    return __atomic_compare_exchange_n(a, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
  }                                                                                              \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile uint##BITS* a, uint##BITS* c,         \
                                                  uint##BITS v, int, int) {                      \
    return __atomic_compare_exchange_n(a, c, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
  }                                                                                              \
  uint##BITS __tsan_atomic##BITS##_compare_exchange_val(volatile uint##BITS* a, uint##BITS c,    \
                                                        uint##BITS v, int, int) {                \
    __atomic_compare_exchange_n(a, &c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);            \
    return c;                                                                                    \
  }
CHECKED_ATOMIC(8)
CHECKED_ATOMIC(16)
CHECKED_ATOMIC(32)
CHECKED_ATOMIC(64)
#undef CHECKED_ATOMIC
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
