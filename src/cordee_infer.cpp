// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The library cordee_infer: integer_network behind a C interface (include/cordee_infer.h).
#include "cordee_infer.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/infer/integer_network.hpp>

struct cordee_infer_network {
  cordee::integer_network net;
  std::vector<std::int32_t> logits{};  // of predict_float
};

namespace {

// Of a fixed size: to report that there is no memory needs none.
thread_local char last_error[1024] = "";

void set_error(const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
}

/// Returns f(), or `failed` where it throws.
template <class F, class R>
R guarded(const F& f, R failed) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    set_error("cordee_infer: not enough memory");
  } catch (const std::exception& e) {
    set_error(e.what());
  } catch (...) {
    set_error("cordee_infer: an unknown error");
  }
  return failed;
}

int predict(cordee_infer_network* network, std::size_t samples, const std::uint8_t* images,
            std::int32_t* logits) {
  cordee::integer_network& net = network->net;
  net.run({images, samples * net.image().size()}, {logits, samples * net.classes()});
  return 0;
}

/// Checks arguments before anything is computed with them.
void expect_arguments(const cordee_infer_network* network, std::size_t samples, const void* images,
                      const void* logits) {
  cordee::expects(network != nullptr, "cordee_infer_predict: the network is NULL");
  cordee::expects(samples == 0 || (images != nullptr && logits != nullptr),
                  "cordee_infer_predict: images or logits are NULL");
  const cordee::integer_network& net = network->net;
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  cordee::expects(samples <= most / net.image().size() &&
                      samples <= most / sizeof(std::int32_t) / net.classes(),
                  "cordee_infer_predict: more samples than there can be memory for");
}

}  // namespace

extern "C" {

int cordee_infer_abi(void) { return CORDEE_INFER_ABI; }
const char* cordee_infer_error(void) { return last_error; }

cordee_infer_network* cordee_infer_open(const char* path, int threads) {
  return guarded(
      [&] {
        cordee::expects(path != nullptr, "cordee_infer_open: the path is NULL");
        cordee::expects(threads >= 0 && threads <= 4096,
                        "cordee_infer_open: threads are 0, for all processors, to 4096");
        const cordee::cpu device(threads > 0 ? threads : cordee::cpu::default_workers());
        return new cordee_infer_network{cordee::integer_network::load(path, device)};
      },
      static_cast<cordee_infer_network*>(nullptr));
}
void cordee_infer_close(cordee_infer_network* network) { delete network; }

int cordee_infer_channels(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->net.image().channels;
}
int cordee_infer_height(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->net.image().height;
}
int cordee_infer_width(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->net.image().width;
}
int cordee_infer_classes(const cordee_infer_network* network) {
  return network == nullptr ? 0 : static_cast<int>(network->net.classes());
}
double cordee_infer_logit_step(const cordee_infer_network* network) {
  return network == nullptr ? 0 : network->net.logit_step();
}

int cordee_infer_predict(cordee_infer_network* network, size_t samples, const uint8_t* images,
                         int32_t* logits) {
  return guarded(
      [&] {
        expect_arguments(network, samples, images, logits);
        return predict(network, samples, images, logits);
      },
      -1);
}
int cordee_infer_predict_float(cordee_infer_network* network, size_t samples, const uint8_t* images,
                               float* logits) {
  return guarded(
      [&] {
        expect_arguments(network, samples, images, logits);
        std::vector<std::int32_t>& integers = network->logits;
        integers.resize(samples * network->net.classes());
        predict(network, samples, images, integers.data());
        for (std::size_t i = 0; i < integers.size(); ++i)
          logits[i] = static_cast<float>(integers[i] * network->net.logit_step());
        return 0;
      },
      -1);
}

}  // extern "C"
