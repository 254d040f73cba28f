// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a file of an integer network, whose checksums are ignored, since a fuzzer does not
// find them: it is refused with an error, or it is saved, loaded and run, by the definitions and by
// engine direct with equal logits. Programs that take long are not run.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <cordee/infer/integer_network.hpp>

#include "tests/fuzz/memory_file.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::memory_file input;
  static const support::folder saved;
  input.set({data, size});
  const auto reads = [&](checksums mode) {
    try {
      return std::optional(program_reader(input.path(), mode).read());
    } catch (const error&) {
      return std::optional<stored_program>();
    }
  };
  const auto stored = reads(checksums::ignored);
  fuzz::require(stored || !reads(checksums::verified), "a checksum makes no file acceptable");
  if (!stored || operations(stored->program) > 200'000) return 0;
  const std::string path = saved.file("net");
  save_program(path, stored->program, stored->logit_step);
  integer_network net = integer_network::load(path);
  std::vector<std::uint8_t> images(3 * net.image().size());
  for (std::size_t i = net.image().size(); i < images.size(); ++i)  // the first one is black
    images[i] = i < 2 * net.image().size() ? 255 : static_cast<std::uint8_t>(97 * i);
  std::vector<std::int32_t> logits(3 * net.classes()), defined(logits.size());
  net.run(images, logits);
  net.run_reference(images, defined);
  fuzz::require(logits == defined, "engine direct computes the integers of the definitions");
  return 0;
}
