// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exits with 0 if it was linked with a library of the expected build. With INLINE_ONLY the two
// units share nothing but inline functions of Cordee.
#include <cstring>
#include <typeinfo>

#include "library.hpp"

int main() {
  const cordee::extent image{3, 32, 32};
  const bool same_abi = std::strcmp(abi_of_library(), typeid(cordee::extent).name()) == 0;
#if defined(INLINE_ONLY)
  return !same_abi && image.size() == 3072 ? 0 : 1;
#else
  return same_abi && count_numbers(image) == 3072 ? 0 : 1;
#endif
}
