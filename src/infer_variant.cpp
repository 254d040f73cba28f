// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// integer_network behind a table of functions, infer_variant_<isa>: compiled for each kind of
// processor that the library has a variant for (cmake/infer.cmake).
#include "infer_variant.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/infer/integer_network.hpp>

namespace {

struct open_network : cordee_infer_network {
  explicit open_network(const infer_variant& of, cordee::integer_network loaded,
                        std::size_t workers)
      : net(std::move(loaded)), chunk(16 * workers), integers(chunk * net.classes()) {
    const cordee::extent& image = net.image();
    variant = &of;
    channels = image.channels;
    height = image.height;
    width = image.width;
    classes = static_cast<int>(net.classes());
    logit_step = net.logit_step();
  }
  cordee::integer_network net;
  std::size_t chunk;                   // samples of predict_float at once
  std::vector<std::int32_t> integers;  // (chunk, classes), of predict_float
};
open_network& opened(cordee_infer_network* network) { return static_cast<open_network&>(*network); }

/// Returns f(), or `failed` where it throws.
template <class F, class R>
R guarded(const F& f, R failed) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    infer_failed("cordee_infer: not enough memory");
  } catch (const std::exception& e) {
    infer_failed(e.what());
  } catch (...) {
    infer_failed("cordee_infer: an unknown error");
  }
  return failed;
}

void run(open_network& n, std::size_t samples, const std::uint8_t* images, std::int32_t* logits) {
  n.net.run({images, samples * n.net.image().size()}, {logits, samples * n.net.classes()});
}

cordee_infer_network* open(const infer_variant& variant, const char* path, int threads) {
  return guarded(
      [&]() -> cordee_infer_network* {
        const cordee::cpu device(threads > 0 ? threads : cordee::cpu::default_workers());
        return new open_network(variant, cordee::integer_network::load(path, device),
                                static_cast<std::size_t>(device.workers()));
      },
      static_cast<cordee_infer_network*>(nullptr));
}
void close(cordee_infer_network* network) { delete &opened(network); }

int predict(cordee_infer_network* network, std::size_t samples, const std::uint8_t* images,
            std::int32_t* logits) {
  return guarded(
      [&] {
        run(opened(network), samples, images, logits);
        return 0;
      },
      -1);
}
int predict_float(cordee_infer_network* network, std::size_t samples, const std::uint8_t* images,
                  float* logits) {
  return guarded(
      [&] {
        open_network& n = opened(network);
        for (std::size_t first = 0; first < samples; first += n.chunk) {
          const std::size_t count = std::min(n.chunk, samples - first);
          run(n, count, images, n.integers.data());
          images += count * n.net.image().size();
          for (std::size_t i = 0; i < count * n.net.classes(); ++i)
            *logits++ = static_cast<float>(n.integers[i] * n.logit_step);
        }
        return 0;
      },
      -1);
}

}  // namespace

#define INFER_TEXT_OF(isa) #isa
#define INFER_TEXT(isa) INFER_TEXT_OF(isa)
#define INFER_PASTE(prefix, isa) prefix##isa
#define INFER_TABLE_OF(isa) INFER_PASTE(infer_variant_, isa)
#define INFER_TABLE INFER_TABLE_OF(CORDEE_INFER_ISA)

extern "C" {
extern const infer_variant INFER_TABLE;
const infer_variant INFER_TABLE = {
    INFER_TEXT(CORDEE_INFER_ISA),
    [](const char* path, int threads) { return open(INFER_TABLE, path, threads); }, close, predict,
    predict_float};
}
