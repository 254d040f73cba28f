/* SPDX-FileCopyrightText: the Cordee contributors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Integer networks for programs that only deploy them: the C interface of the library cordee_infer.
 *
 *   cordee_infer_network* net = cordee_infer_open("net.safetensors", 4);
 *   if (net == NULL) return fail(cordee_infer_error());
 *   cordee_infer_predict(net, samples, images, logits);
 *   cordee_infer_close(net);
 *
 * A file of integer_network::save holds its network's layers, so the library opens any of them, and
 * refuses damaged and hostile ones. No exception leaves a function. Different networks may be used
 * by different threads at once; one network, by one thread at a time.
 *
 * The library has variants for several sets of instructions, and takes for each network the fastest
 * that the processor and the system have; all have the same logits, to the bit. The environment
 * variable CORDEE_INFER_ISA asks for one, if the library was built with it: on x86-64 avx512_amx,
 * avx512_vnni, avx_vnni, avx2 (AVX2 and FMA) or baseline (SSE2), on 64-bit Arm i8mm_bf16, dotprod
 * or baseline (NEON). It is an error if it is another name, or one that this processor does not
 * have.
 * On a processor with AMX the library requests its registers of Linux for the process; if they are
 * refused it takes the next variant. */
#ifndef CORDEE_INFER_H
#define CORDEE_INFER_H

#include <stddef.h>
#include <stdint.h>

/* The version of this interface; the library's soname has the same. */
#define CORDEE_INFER_ABI 1
/* The most threads that a network can be opened with. */
#define CORDEE_INFER_MAX_THREADS 4096

#if defined(__GNUC__)
#define CORDEE_INFER_EXPORT __attribute__((visibility("default")))
#else
#define CORDEE_INFER_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cordee_infer_network cordee_infer_network;

/* CORDEE_INFER_ABI of the library that is loaded. */
CORDEE_INFER_EXPORT int cordee_infer_abi(void);

/* The message of this thread's last call that failed; empty if none has. It is valid until another
 * one fails. Of a message of more than 1023 bytes the middle is left out. */
CORDEE_INFER_EXPORT const char* cordee_infer_error(void);

/* Opens a file. `threads`: 1 to CORDEE_INFER_MAX_THREADS, or 0 for all processors. Returns NULL if
 * it fails. */
CORDEE_INFER_EXPORT cordee_infer_network* cordee_infer_open(const char* path, int threads);
/* NULL is permitted. */
CORDEE_INFER_EXPORT void cordee_infer_close(cordee_infer_network* network);

/* The following are 0 of NULL. */
CORDEE_INFER_EXPORT int cordee_infer_channels(const cordee_infer_network* network);
CORDEE_INFER_EXPORT int cordee_infer_height(const cordee_infer_network* network);
CORDEE_INFER_EXPORT int cordee_infer_width(const cordee_infer_network* network);
CORDEE_INFER_EXPORT int cordee_infer_classes(const cordee_infer_network* network);
/* The number that one step of an integer logit stands for. */
CORDEE_INFER_EXPORT double cordee_infer_logit_step(const cordee_infer_network* network);
/* The instructions that the network runs with, a name as in CORDEE_INFER_ISA; of NULL "". */
CORDEE_INFER_EXPORT const char* cordee_infer_isa(const cordee_infer_network* network);

/* images: (samples, channels, height, width); logits: (samples, classes). Both return 0, or -1 if
 * they fail, and allocate nothing. */
CORDEE_INFER_EXPORT int cordee_infer_predict(cordee_infer_network* network, size_t samples,
                                             const uint8_t* images, int32_t* logits);
/* Logits times their step. */
CORDEE_INFER_EXPORT int cordee_infer_predict_float(cordee_infer_network* network, size_t samples,
                                                   const uint8_t* images, float* logits);

#ifdef __cplusplus
}
#endif

#endif
