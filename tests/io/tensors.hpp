// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of tensors for tests of their files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/io/tensor_file.hpp>

namespace support {

inline std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  cordee::random_sequence random(seed, cordee::purpose::test, 0, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(random.normal());
  return x;
}

template <class Real>
std::vector<Real> read(const cordee::detail::io::tensor_file& file, const std::string& name,
                       std::size_t n) {
  std::vector<Real> out(n);
  file.read(name, std::span(out));
  return out;
}

}  // namespace support
