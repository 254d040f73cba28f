// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// MATLAB 5 files for tests. Requires zlib.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "tests/images/records.hpp"

namespace support {

/// A part: its tag, its bytes and padding; with a short tag where `shortened` and they fit.
inline file_bytes mat_part(std::uint32_t type, const file_bytes& bytes, bool shortened = true) {
  file_bytes out;
  if (shortened && bytes.size() <= 4) {
    append_number(out, type | bytes.size() << 16, 4);
    append(out, bytes);
    out.resize(8);
    return out;
  }
  append_number(out, type, 4);
  append_number(out, bytes.size(), 4);
  append(out, bytes);
  out.resize((out.size() + 7) / 8 * 8);
  return out;
}
inline file_bytes mat_words(const std::vector<std::uint32_t>& words) {
  file_bytes out;
  for (const std::uint32_t w : words) append_number(out, w, 4);
  return out;
}
/// An array of type `type`: element 14.
inline file_bytes mat_matrix(std::string_view name, const std::vector<std::uint32_t>& dimensions,
                             std::uint32_t type, const file_bytes& numbers) {
  file_bytes parts = mat_part(6, mat_words({type == 9 ? 6u : 9u, 0}));
  append(parts, mat_part(5, mat_words(dimensions)));
  append(parts, mat_part(1, to_bytes(name)));
  append(parts, mat_part(type, numbers));
  file_bytes out;
  append_number(out, 14, 4);
  append_number(out, parts.size(), 4);
  append(out, parts);
  return out;
}
inline file_bytes mat_compressed(const file_bytes& element) {
  uLongf size = compressBound(static_cast<uLong>(element.size()));
  file_bytes stream(size);
  compress(stream.data(), &size, element.data(), static_cast<uLong>(element.size()));
  stream.resize(size);
  file_bytes out;
  append_number(out, 15, 4);
  append_number(out, stream.size(), 4);
  append(out, stream);
  return out;
}
inline file_bytes mat_file_of(const std::vector<file_bytes>& elements) {
  file_bytes out = to_bytes("MATLAB 5.0 MAT-file");
  out.resize(124, ' ');
  append(out, {0x00, 0x01, 'I', 'M'});
  for (const file_bytes& e : elements) append(out, e);
  return out;
}

}  // namespace support
