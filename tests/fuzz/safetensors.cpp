// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a tensor file: it is refused with an error, or its tensors lie in it one after
// another and those of numbers can be read.
#include <cordee/io/tensor_file.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::memory_file input;
  input.set({data, size});
  try {
    const tensor_file file = tensor_file::open(input.path());
    std::size_t total = 0;
    for (const tensor_entry& e : file.entries()) {
      fuzz::require(e.offset <= size && e.size <= size - e.offset, "a tensor lies in the file");
      total += e.size;
      if (e.dtype != "F32" && e.dtype != "F64") continue;
      const std::size_t numbers = e.size / dtype_size(e.dtype);
      std::vector<float> narrow(numbers);
      std::vector<double> wide(numbers);
      file.read(e.name, std::span(narrow));
      file.read(e.name, std::span(wide));
    }
    fuzz::require(total <= size - 8, "tensors do not overlap");
  } catch (const error&) {
  }
  return 0;
}
