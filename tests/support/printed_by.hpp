// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a function prints to standard error.
#pragma once

#include <concepts>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/folder.hpp"

namespace support {

inline std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}
/// What f writes to standard error; f(path) may read there what it has written.
template <class F>
std::string printed_by(const F& f) {
  const folder temporary;
  const std::string path = temporary.file("stderr");
  std::fflush(stderr);
  // Not freopen, after which stderr would have a buffer.
  const int saved = ::dup(2), file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(file >= 0);
  ::dup2(file, 2);
  ::close(file);
  if constexpr (std::invocable<const F&, const std::string&>)
    f(path);
  else
    f();
  std::fflush(stderr);
  ::dup2(saved, 2);
  ::close(saved);
  return text_of(path);
}

}  // namespace support
