// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a file that may be compressed: it is refused with an error, or read to a limit, and
// in small pieces it has the same bytes.
#include <cordee/io/gzip.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 1 << 16;
  static const fuzz::memory_file input;
  input.set({data, size});
  try {
    decompressed_file file(input.path());
    std::vector<std::uint8_t> bytes;
    file.append_to(bytes, most);
    fuzz::require(bytes.size() <= most, "no more is decompressed than is asked for");
    fuzz::require(bytes.size() == most || file.at_end(), "only the end stops short of the limit");

    decompressed_file again(input.path());
    std::vector<std::uint8_t> pieces(bytes.size());
    std::size_t begin = 0;
    for (std::size_t n = 1; begin < pieces.size(); n = n * 3 + 1) {
      const auto piece = std::span(pieces).subspan(begin, std::min(n, pieces.size() - begin));
      fuzz::require(again.read(piece) == piece.size(), "pieces are as long as the whole");
      begin += piece.size();
    }
    fuzz::require(pieces == bytes, "pieces have the bytes of the whole");
  } catch (const error&) {
  }
  return 0;
}
