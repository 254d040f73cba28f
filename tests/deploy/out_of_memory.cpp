// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Usage: out_of_memory NET THREADS
//
// Opens NET when the n-th allocation fails, alone or with all that follow, for each n; then
// predicts when every one fails. An exception that leaves the library ends the program.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <cordee_infer.h>

#include "tests/support/replaced_new.hpp"

namespace {

std::atomic<long> until_failure{-1};  // allocations; negative: none fails
std::atomic<bool> goes_on{false};     // failing
std::atomic<bool> failed{false};

/// Whether `net` predicts on this thread without an allocation.
bool predicts(cordee_infer_network* net, const std::vector<std::uint8_t>& images,
              std::vector<std::int32_t>& logits, std::vector<float>& reals) {
  goes_on = true;
  until_failure = 0;
  const bool done = cordee_infer_predict(net, 1, images.data(), logits.data()) == 0 &&
                    cordee_infer_predict(net, 21, images.data(), logits.data()) == 0 &&
                    cordee_infer_predict_float(net, 21, images.data(), reals.data()) == 0;
  until_failure = -1;
  return done;
}

}  // namespace

void* support::replaced_new(std::size_t bytes, std::size_t alignment) {
  long left = until_failure.load();
  while (left >= 0 &&
         !until_failure.compare_exchange_weak(left, goes_on && left == 0 ? 0 : left - 1)) {
  }
  if (left == 0) {
    failed = true;
    return nullptr;
  }
  return system_memory(bytes, alignment);
}
void support::replaced_delete(void* memory) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int threads = std::atoi(argv[2]);
  long allocations = 0;
  for (const bool all_that_follow : {false, true})
    for (allocations = 0;; ++allocations) {
      failed = false;
      goes_on = all_that_follow;
      until_failure = allocations;
      cordee_infer_network* const net = cordee_infer_open(argv[1], threads);
      until_failure = -1;
      const bool opened = net != nullptr;
      cordee_infer_close(net);
      if (!failed) break;
      if (opened || std::strstr(cordee_infer_error(), "memory") == nullptr) {
        std::printf("allocation %ld failed: %s\n", allocations,
                    opened ? "opened" : cordee_infer_error());
        return 4;
      }
    }
  cordee_infer_network* const net = cordee_infer_open(argv[1], threads);
  if (net == nullptr || allocations < 50) return 2;
  const auto size = static_cast<std::size_t>(cordee_infer_channels(net) * cordee_infer_height(net) *
                                             cordee_infer_width(net));
  const auto classes = static_cast<std::size_t>(cordee_infer_classes(net));
  std::vector<std::uint8_t> images(21 * size);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(97 * i);
  std::vector<std::int32_t> logits(21 * classes);
  std::vector<float> reals(21 * classes);
  // The first calls are those of a thread that has not opened it.
  bool done = false;
  std::thread([&] { done = predicts(net, images, logits, reals); }).join();
  const auto first = logits;
  done = done && predicts(net, images, logits, reals);
  cordee_infer_close(net);
  if (!done) std::printf("predict: %s\n", cordee_infer_error());
  return done && first == logits ? 0 : 5;
}
