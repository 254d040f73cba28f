// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What cordee_infer.cpp and the variants of the library share. A variant is infer_variant.cpp
// compiled for one kind of processor. No function is defined here, and nothing of the standard
// library is included: code that two variants shared would have the instructions of one of them.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct infer_variant;

/// An open network begins with this.
struct cordee_infer_network {
  const infer_variant* variant;
  int channels, height, width, classes;
  double logit_step;
};

/// A variant's functions. Those that fail call infer_failed first, and return NULL or -1. They do
/// not check for NULL, nor for more samples than there can be memory for.
struct infer_variant {
  const char* isa;
  cordee_infer_network* (*open)(const char* path, int threads);
  void (*close)(cordee_infer_network* network);
  int (*predict)(cordee_infer_network* network, size_t samples, const uint8_t* images,
                 int32_t* logits);
  int (*predict_float)(cordee_infer_network* network, size_t samples, const uint8_t* images,
                       float* logits);
};

/// Records the message that cordee_infer_error returns in this thread.
extern "C" void infer_failed(const char* message) noexcept;
