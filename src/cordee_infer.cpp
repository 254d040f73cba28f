// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of include/cordee_infer.h: they check arguments, and call the variant of the
// library that this processor runs fastest. Compiled for any processor, so nothing of the library
// but the request for AMX's registers, and nothing of the standard library's templates, is used
// here.
#include "cordee_infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <cordee/ops/engines/amx/tiles/permission.hpp>

#include "infer_variant.hpp"

#if defined(__SSE3__) || defined(__ARM_FEATURE_DOTPROD)
#error \
    "cordee_infer chooses instructions when a network is opened: no -m options in CMAKE_CXX_FLAGS \
but -march=, which its targets replace; CORDEE_INFER_ISAS has the list"
#endif

// CORDEE_INFER_VARIANT(isa, whether processor and system have it), the fastest one first.
#define CORDEE_INFER_VARIANT(isa, supported) extern "C" const infer_variant infer_variant_##isa;
#include "infer_variants.inc"
#undef CORDEE_INFER_VARIANT

namespace {

thread_local char last_error[1024] = "";

bool continues_character(char c) { return (c & '\xC0') == '\x80'; }  // of UTF-8

struct choice {
  const infer_variant* variant;
  bool (*supported)();  // asks the system for no registers that are not wanted
};
#define CORDEE_INFER_VARIANT(isa, supported) {&infer_variant_##isa, [] { return supported; }},
bool uses_tiles(const char* isa) { return strcmp(isa, "avx512_amx") == 0; }

/// The variant of this name, the fastest one for NULL; NULL after an error.
const infer_variant* choose(const char* isa) {
  const choice choices[] = {
#include "infer_variants.inc"
  };
  char names[256] = "", message[1024];
  for (const choice& c : choices) {
    const bool wanted = isa == nullptr || strcmp(isa, c.variant->isa) == 0;
    if (wanted && c.supported()) return c.variant;
    if (wanted && isa != nullptr) {
      snprintf(message, sizeof message,
               "cordee_infer_open: CORDEE_INFER_ISA is %s, which this processor does not have%s%s",
               isa, uses_tiles(isa) ? ": " : "",
               uses_tiles(isa) ? cordee::detail::ops::request_tiles().reason : "");
      infer_failed(message);
      return nullptr;
    }
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", length == 0 ? "" : ", ",
             c.variant->isa);
  }
  if (isa == nullptr)
    snprintf(message, sizeof message,
             "cordee_infer_open: this processor has none of what the library was built for: %s",
             names);
  else
    snprintf(message, sizeof message,
             "cordee_infer_open: CORDEE_INFER_ISA is %.64s, and this library has %s", isa, names);
  infer_failed(message);
  return nullptr;
}
#undef CORDEE_INFER_VARIANT

/// Whether the arguments make sense, before anything is computed with them.
bool valid(const char* function, const cordee_infer_network* network, size_t samples,
           const void* images, const void* logits) {
  const char* wrong = nullptr;
  if (network == nullptr) {
    wrong = "the network is NULL";
  } else if (samples != 0 && (images == nullptr || logits == nullptr)) {
    wrong = "images or logits are NULL";
  } else {
    const size_t image = static_cast<size_t>(network->channels) *
                         static_cast<size_t>(network->height) * static_cast<size_t>(network->width);
    if (samples > PTRDIFF_MAX / image ||
        samples > PTRDIFF_MAX / sizeof(int32_t) / static_cast<size_t>(network->classes))
      wrong = "more samples than there can be memory for";
  }
  if (wrong == nullptr) return true;
  char message[128];
  snprintf(message, sizeof message, "%s: %s", function, wrong);
  infer_failed(message);
  return false;
}

}  // namespace

extern "C" {

// A text that is too long loses its middle: usually part of a path, since the reason follows it.
void infer_failed(const char* message) noexcept {
  constexpr char dots[] = " ... ";
  const size_t length = strlen(message), room = sizeof last_error - 1;
  if (length <= room) {
    memcpy(last_error, message, length + 1);
    return;
  }
  size_t head = (room - (sizeof dots - 1)) / 2, tail = length - head;
  while (head > 0 && continues_character(message[head])) --head;
  while (continues_character(message[tail])) ++tail;
  snprintf(last_error, sizeof last_error, "%.*s%s%s", static_cast<int>(head), message, dots,
           message + tail);
}

int cordee_infer_abi(void) { return CORDEE_INFER_ABI; }
const char* cordee_infer_error(void) { return last_error; }

cordee_infer_network* cordee_infer_open(const char* path, int threads) {
  if (path == nullptr) {
    infer_failed("cordee_infer_open: the path is NULL");
    return nullptr;
  }
  if (threads < 0 || threads > CORDEE_INFER_MAX_THREADS) {
    char message[128];
    snprintf(message, sizeof message,
             "cordee_infer_open: %d threads; they are 0, for all processors, to %d", threads,
             CORDEE_INFER_MAX_THREADS);
    infer_failed(message);
    return nullptr;
  }
  const char* const isa = getenv("CORDEE_INFER_ISA");
  const infer_variant* const variant = choose(isa == nullptr || *isa == '\0' ? nullptr : isa);
  return variant == nullptr ? nullptr : variant->open(path, threads);
}
void cordee_infer_close(cordee_infer_network* network) {
  if (network != nullptr) network->variant->close(network);
}

int cordee_infer_channels(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->channels;
}
int cordee_infer_height(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->height;
}
int cordee_infer_width(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->width;
}
int cordee_infer_classes(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->classes;
}
double cordee_infer_logit_step(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->logit_step;
}
const char* cordee_infer_isa(const cordee_infer_network* network) {
  return network == nullptr ? "" : network->variant->isa;
}

int cordee_infer_predict(cordee_infer_network* network, size_t samples, const uint8_t* images,
                         int32_t* logits) {
  if (!valid("cordee_infer_predict", network, samples, images, logits)) return -1;
  return network->variant->predict(network, samples, images, logits);
}
int cordee_infer_predict_float(cordee_infer_network* network, size_t samples, const uint8_t* images,
                               float* logits) {
  if (!valid("cordee_infer_predict_float", network, samples, images, logits)) return -1;
  return network->variant->predict_float(network, samples, images, logits);
}

}  // extern "C"
