// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is an object whose keys name the types of its values: it is refused with an error, or
// read to its end, and every string is read back from its literal.
#include <cordee/io/json.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::io;

namespace {

void read_back(const std::string& s) {
  const std::string literal = json_quoted(s);
  json_reader again(literal, "literal", 0);
  fuzz::require(again.string() == s, "a string is read back from its literal");
  again.expect_end();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  json_reader json({reinterpret_cast<const char*>(data), size}, "input", 0);
  try {
    json.object([&](const std::string& key) {
      read_back(key);
      if (key.starts_with('n'))
        fuzz::require(json.number() < std::uint64_t{1} << 63, "a number fits 63 bits");
      else if (key.starts_with('a'))
        json.array([&] { json.number(); });
      else if (key.starts_with('o'))
        json.object([&](const std::string&) { read_back(json.string()); });
      else
        read_back(json.string());
    });
    json.expect_end();
    fuzz::require(json.offset() <= size, "nothing beyond the input is read");
  } catch (const error&) {
  }
  return 0;
}
