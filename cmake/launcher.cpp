// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The start of a program that is compiled for several instruction sets (cordee_add_executable in
// executable.cmake): replaces itself by the program beside it for the fastest one that processor
// and system support, or for the one that CORDEE_ISA names. Compiled for any processor, so nothing
// of the library or of the standard library's templates is used here.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace {

#if defined(__x86_64__)
// What the __builtin_cpu_supports of some compilers does not know. Whether the system saves the
// registers is in the answer for avx2, which is asked for as well.
[[maybe_unused]] bool supports_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
[[maybe_unused]] bool supports_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1U << 4) != 0;
}
// Tiles, products of bytes and of bf16; and whether the system grants the registers.
[[maybe_unused]] bool supports_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const unsigned all = 1U << 22 | 1U << 24 | 1U << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & all) != all) return false;
  const long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}
#endif

struct program {
  const char* isa;
  const char* file;
  bool supported;
  bool preferred;  // else started only if CORDEE_ISA names it
};

int fail(const char* text, const char* detail, const program* begin, const program* end) {
  fprintf(stderr, "error: %s: %s%s", CORDEE_PROGRAM_NAME, text, detail);
  for (const program* p = begin; p != end; ++p)
    fprintf(stderr, "%s%s", p == begin ? " " : ", ", p->isa);
  fputs("\n", stderr);
  return 1;
}

int start(const program& chosen, char** argv) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length < 0 || static_cast<size_t>(length) == sizeof path) {
    fprintf(stderr, "error: %s: cannot read the link /proc/self/exe: %s\n", CORDEE_PROGRAM_NAME,
            length < 0 ? strerror(errno) : "the path is too long");
    return 1;
  }
  path[length] = '\0';
  char* const name = strrchr(path, '/') + 1;
  if (strlen(chosen.file) >= static_cast<size_t>(path + sizeof path - name)) {
    fprintf(stderr, "error: %s: the path of %s is too long\n", CORDEE_PROGRAM_NAME, chosen.file);
    return 1;
  }
  strcpy(name, chosen.file);
  execv(path, argv);
  fprintf(stderr, "error: %s: cannot start %s, which belongs in the same folder: %s\n",
          CORDEE_PROGRAM_NAME, path, strerror(errno));
  return 1;
}

}  // namespace

int main(int, char** argv) {
#define CORDEE_PROGRAM(isa, file, supported, preferred) {isa, file, supported, preferred},
  // The fastest first.
  const program programs[] = {
#include "programs.inc"
  };
  const program* const end = programs + sizeof programs / sizeof *programs;
  const char* const wanted = getenv("CORDEE_ISA");
  if (wanted == nullptr || *wanted == '\0') {
    for (const program* p = programs; p != end; ++p)
      if (p->supported && p->preferred) return start(*p, argv);
    return fail("this processor or system supports none of", "", programs, end);
  }
  for (const program* p = programs; p != end; ++p) {
    if (strcmp(wanted, p->isa) != 0) continue;
    if (p->supported) return start(*p, argv);
    return fail("this processor or system does not support CORDEE_ISA=", wanted, end, end);
  }
  char text[128];
  snprintf(text, sizeof text, "CORDEE_ISA is %.64s, and the program is compiled for", wanted);
  return fail(text, "", programs, end);
}
