// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Programs that are changed and then written, and what their reader says.
#pragma once

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include <cordee/infer/file/program_reader.hpp>

#include "tests/infer/saved_network.hpp"
#include "tests/support/folder.hpp"

namespace support {

using namespace cordee::detail::infer;

constexpr resnet_options pooled{
    .image = {3, 32, 32}, .classes = 3, .zero_gamma = false, .stem = stem::large};
using cifar_form = random_resnet<tiny_image>;
/// ResNet-18's layers, narrower: 11 million weights are long to pack, write and read.
using pooled_blocks =
    cordee::detail::nn::imagenet_blocks<cordee::detail::nn::imagenet_defaults(pooled)>;
using imagenet_form =
    network<sequential<convolution<16, 7, 2>, pooled_blocks::norm_relu, max_pool<3, 2>,
                       pooled_blocks::equal_stage<false, 16, 1, 2>,
                       pooled_blocks::equal_stage<false, 24, 2, 2>,
                       pooled_blocks::equal_stage<false, 40, 2, 2>, global_average_pool, linear<3>>,
            int8, cpu, direct, pooled.image, 3>;

inline const integer_program& program_of_cifar_form() {
  static const integer_program program = random_integers<cifar_form>(1).program();
  return program;
}
inline const integer_program& program_of_imagenet_form() {
  static const integer_program program = random_integers<imagenet_form>(1).program();
  return program;
}
inline const integer_program& program_of_unfolded_form() {
  static const integer_program program =
      random_integers<cifar_form>(1, {.fold_batch_norm = false}).program();
  return program;
}
inline integer_convolution& convolution_at(integer_program& p, std::size_t step) {
  return std::get<integer_convolution>(p.steps[step].layer);
}
inline integer_classifier& classifier_of(integer_program& p) {
  return std::get<integer_classifier>(p.steps.back().layer);
}

/// What reading says to a program that was changed and then written; empty if it is read.
template <class Change>
std::string refusal(integer_program program, const Change& change, double logit_step = 0.5) {
  const folder f;
  change(program);
  save_program(f.file("net"), program, logit_step);
  const std::string message =
      message_of<error>([&] { static_cast<void>(program_reader(f.file("net")).read()); });
  if (message.empty()) return "";
  CHECK(message.starts_with(f.file("net") + ": "));
  return message.substr(f.file("net").size() + 2);
}
template <class Change>
std::string refusal(const Change& change) {
  return refusal(program_of_cifar_form(), change);
}
/// The same of a file whose bytes were changed, whatever the checksums.
template <class Change>
std::string refusal_of_bytes(const integer_program& program, const Change& change) {
  const folder f;
  save_program(f.file("net"), program, 0.5);
  auto bytes = f.get("net");
  change(bytes);
  f.put("net", bytes);
  const std::string message = message_of<error>(
      [&] { static_cast<void>(program_reader(f.file("net"), checksums::ignored).read()); });
  CHECK((message.empty() || message.starts_with(f.file("net") + ": ")));
  return message.empty() ? "" : message.substr(f.file("net").size() + 2);
}
/// Replaces `from`, at its first place, by `to`, which is as long.
inline auto replaced(const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  return [=](file_bytes& bytes) {
    const auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
    REQUIRE(at != bytes.end());
    std::copy(to.begin(), to.end(), at);
  };
}
inline std::string refusal(const std::string& from, const std::string& to) {
  return refusal_of_bytes(program_of_cifar_form(), replaced(from, to));
}
#define CHECK_REFUSED(message, ...)                                 \
  do {                                                              \
    const std::string refused_with = __VA_ARGS__;                   \
    CHECK_MESSAGE(refused_with.starts_with(message), refused_with); \
  } while (false)

}  // namespace support
