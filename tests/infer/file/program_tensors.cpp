// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <cordee/infer/file/program_reader.hpp>
#include <cordee/infer/file/program_tensors.hpp>

#include "tests/infer/saved_network.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using namespace support;

namespace {

using tiny = network<sequential<convolution<2>, relu, global_average_pool, linear<2>>, int8, cpu,
                     direct, extent{1, 3, 4}, 2>;

/// The file of a network, in which bytes change.
struct saved_file {
  folder in{};
  std::string path = in.file("net");
  file_bytes good{};

  saved_file() {
    random_integers<tiny>(1).save(path);
    good = in.get("net");
  }
  [[nodiscard]] std::size_t find(std::string_view text) const {
    const auto at = std::search(good.begin(), good.end(), text.begin(), text.end());
    REQUIRE(at != good.end());
    return static_cast<std::size_t>(at - good.begin());
  }
  /// What reading says to the file with `text` at an offset; empty if it is read.
  [[nodiscard]] std::string refusal(std::size_t at, std::string_view text) const {
    file_bytes bytes = good;
    std::copy(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    in.put("net", bytes);
    return message_of<error>([&] { static_cast<void>(program_reader(path).read()); });
  }
};

}  // namespace

TEST_CASE(
    "program_tensors: a change of any byte is refused, but for white space after the header") {
  const saved_file file;
  const std::size_t header = file.good[0] + std::size_t{256} * file.good[1] + 8;
  std::size_t harmless = 0;
  for (std::size_t i = 0; i < file.good.size(); ++i)
    for (const int change : {1 << i % 8, ' ' ^ '\n'}) {
      const char changed = static_cast<char>(file.good[i] ^ change);
      const std::string message = file.refusal(i, {&changed, 1});
      if (!message.empty()) {
        CHECK_MESSAGE(message.starts_with(file.path), i, ", ", message);
        continue;
      }
      CHECK_MESSAGE((i < header && file.good[i] == ' ' && changed == '\n'), i);
      const stored_program same = program_reader(file.path).read();
      save_program(file.path, same.program, same.logit_step);
      CHECK(file.in.get("net") == file.good);
      ++harmless;
    }
  CHECK(harmless < 8);
}

TEST_CASE("program_tensors: the error names the file, the tensor that changed and the remedy") {
  const saved_file file;
  const auto offset_of = [&](const char* name) {
    return detail::io::tensor_file::open(file.path).at(name).offset;
  };
  for (const char* name : {"pixel_table", "logit_step", "conv1.weight", "fc.bias", "fc.shift"}) {
    file.in.put("net", file.good);
    const std::size_t at = offset_of(name);
    const char changed = static_cast<char>(file.good[at] ^ 1);
    CHECK(file.refusal(at, {&changed, 1}) ==
          file.path + ": tensor \"" + name +
              "\" does not have its checksum; it is damaged, or no file of "
              "integer_network::save: copy it again, or save the network again");
  }
  const std::string low = "\\\"low\\\":";
  CHECK(contains_all(file.refusal(file.find(low) + low.size(), "1"),
                     {file.path + ": the description does not have its checksum; "}));
}

TEST_CASE("program_tensors: checksums that are missing, or of nothing, are refused") {
  const saved_file file;
  const auto refused = [&](std::string_view from, std::string_view to, const char* reason) {
    CHECK(contains_all(file.refusal(file.find(from), to), {file.path + ": ", reason}));
  };
  refused("\"crc32c\"", "\"crc64c\"", "its metadata have no \"crc32c\"");
  refused("{\\\"program\\\":", "{\\\"pragram\\\":", "the description has no checksum");
  refused("\\\"fc.bias\\\":", "\\\"fc.bios\\\":", "tensor \"fc.bias\" has no checksum");
  refused("\\\"fc.bias\\\":", "\\\"fc.bias\\\" ", "\"crc32c\": expected ':'");
  refused("\\\"fc.bias\\\":", "\\\"program\\\":", "\"crc32c\": a name occurs twice");

  file_bytes bytes = file.good;
  const std::string more = "\\\"x\\\":1, ";
  lengthen(bytes, file.find("{\\\"program\\\":") + 1, more);
  file.in.put("net", bytes);
  CHECK(
      contains_all(message_of<error>([&] { static_cast<void>(program_reader(file.path).read()); }),
                   {"it has a checksum of \"x\" alone"}));
  CHECK(message_of<error>([&] {
          static_cast<void>(program_reader(file.path, checksums::ignored).read());
        }) == "");
}

TEST_CASE("program_tensors: CRC-32C of a description and of tensors, by RFC 3720's example") {
  const std::string digits = "123456789";
  CHECK(checksum_of(std::as_bytes(std::span(digits))) == 0xe3069283);
}
