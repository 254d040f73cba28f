// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of an integer program's file (infer/file/program_file.hpp). The shape of a tensor is
// checked before there is memory for it, its bytes against the checksum that the metadata state:
//
//   crc32c   {"program": 3735928559, "pixel_table": …, "conv1.weight": …}
//
// CRC-32C of the bytes of each tensor and of the description "program": any change within 32 bits
// is found, and so that of any byte. It finds damage, not intent: a signature would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/crc32c.hpp>
#include <cordee/io/json.hpp>
#include <cordee/io/tensor_file.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

[[noreturn]] inline void throw_bad_program(const std::string& path, std::string_view reason) {
  throw error(concat(path, ": ", reason,
                     "; it is damaged, or no file of integer_network::save: copy it again, or save "
                     "the network again"));
}

inline std::uint32_t checksum_of(std::span<const std::byte> bytes) {
  return io::crc32c({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

/// Ignored by tests of what is checked besides.
enum class checksums { verified, ignored };

/// Throws error that names the file and the part of it that is refused.
class program_tensors {
 public:
  program_tensors(const std::string& path, checksums mode)
      : file_(io::tensor_file::open(path)), mode_(mode) {}

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[noreturn]] void refuse(std::string_view reason) const {
    throw_bad_program(file_.path(), reason);
  }

  void expect_metadata(std::string_view key, std::string_view value) const {
    const std::string& found = metadata(key);
    if (found != value)
      refuse(concat("\"", key, "\" is \"", found, "\", this program reads \"", value, "\""));
  }
  void expect_version(std::string_view version) const {
    const std::string& found = metadata("version");
    if (found != version)
      throw error(concat(path(), ": it has version ", found, " of the format, this program reads ",
                         "version ", version,
                         ": save the network again, from its trained weights, "
                         "with the Cordee that loads it"));
  }
  /// The description of the program. It is read first.
  const std::string& description() {
    const std::string& text = metadata("program");
    if (mode_ == checksums::ignored) return text;
    io::json_reader json(metadata("crc32c"), file_.path() + ": \"crc32c\"", 0);
    json.object([&](std::string name) {
      if (!sums_.emplace(std::move(name), json.integer()).second)
        json.refuse("a name occurs twice");
    });
    json.expect_end();
    verify("program", "the description", std::as_bytes(std::span(text)));
    return text;
  }
  template <class T>
  void read(const std::string& name, const std::vector<std::size_t>& shape, std::vector<T>& out) {
    const io::tensor_entry& entry = file_.at(name);
    if (entry.shape != shape) {
      std::string expected;
      for (const std::size_t n : shape) expected += concat(expected.empty() ? "" : ", ", n);
      refuse(concat("the shape of tensor \"", name, "\" is not [", expected, "]"));
    }
    out.resize(entry.size / sizeof(T));
    file_.read(name, std::span(out));
    verify(name, concat("tensor \"", name, "\""), std::as_bytes(std::span(out)));
    ++read_;
  }
  void expect_all_read() const {
    if (read_ != file_.entries().size())
      refuse(concat("it has ", file_.entries().size(), " tensors, of which its program reads ",
                    read_));
    if (!sums_.empty()) refuse(concat("it has a checksum of \"", sums_.begin()->first, "\" alone"));
  }

 private:
  [[nodiscard]] const std::string& metadata(std::string_view key) const {
    for (const auto& [name, value] : file_.metadata())
      if (name == key) return value;
    refuse(concat("its metadata have no \"", key, "\""));
  }
  void verify(const std::string& name, std::string_view what, std::span<const std::byte> bytes) {
    if (mode_ == checksums::ignored) return;
    const auto stated = sums_.find(name);
    if (stated == sums_.end()) refuse(concat(what, " has no checksum"));
    if (stated->second != checksum_of(bytes)) refuse(concat(what, " does not have its checksum"));
    sums_.erase(stated);
  }

  io::tensor_file file_;
  checksums mode_;
  std::map<std::string, std::int64_t> sums_;  // that have not been verified
  std::size_t read_ = 0;                      // tensors
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
