// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// For source.opens_detects: files that are opened for reading without a look at what they are.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>

#include <fcntl.h>

inline void open_all(const char* path, const char* a_mode) {
  std::ifstream stream(path);
  std::FILE* const file = std::fopen(path, "rb");
  std::FILE* const unknown = fopen(path, a_mode);
  std::FILE* const both = fopen(std::string(path).c_str(), "r+");
  std::FILE* const written = fopen(path, "wb");
  const int number = ::open(path, O_RDONLY | O_CLOEXEC);
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY);
}
