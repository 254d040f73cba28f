// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of device/warp.hpp as PTX instructions; requires compute capability 8.0.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "cordee: its kernels need compute capability 8.0 or later, which is not what nvcc compiles \
for by default: add -arch=sm_90, or in CMake -D CMAKE_CUDA_ARCHITECTURES=90"
#endif

#include <cstdint>

#include <cordee/device/warp.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

class cuda_warp {
 public:
  CORDEE_DEVICE void copy_async(void* to, const void* from, bool valid) {
    asm volatile(
        "{ .reg .pred invalid; setp.eq.u32 invalid, %2, 0;\n"
        "cp.async.cg.shared.global [%0], [%1], 16, invalid; }" ::"r"(address(to)),
        "l"(from), "r"(static_cast<unsigned>(valid))
        : "memory");
  }
  CORDEE_DEVICE void commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int Groups>
  CORDEE_DEVICE void wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
  }

  CORDEE_DEVICE void ldmatrix(fragment& f, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3])
                 : "r"(address(row))
                 : "memory");
  }
  CORDEE_DEVICE void ldmatrix_trans(fragment& f, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3])
                 : "r"(address(row))
                 : "memory");
  }

  template <class Mma, int M, int N>
  CORDEE_DEVICE void mma(const fragment (&a)[M], const fragment (&b)[N],
                         accumulator_fragment<Mma> (&c)[M][N]) {
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j)
        for (int half = 0; half < 2; ++half)
          mma_sync(Mma{}, a[i].word, b[j].word[2 * half], b[j].word[2 * half + 1],
                   c[i][j].value + 4 * half);
  }

 private:
  CORDEE_DEVICE static unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }
  CORDEE_DEVICE static void mma_sync(mma_f16, const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1, float* c) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  CORDEE_DEVICE static void mma_sync(mma_bf16, const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1, float* c) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  CORDEE_DEVICE static void mma_sync(mma_u8s8, const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1, std::int32_t* c) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
