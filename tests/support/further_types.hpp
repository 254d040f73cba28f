// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Types and widths of a test that the usual run with a sanitizer leaves out: their code is that of
// the others.
//
//   TEST_CASE_TEMPLATE("...", T, float FURTHER_TYPES(, double)) {...}
#pragma once

#if defined(CORDEE_SANITIZED_TESTS)
#define FURTHER_TYPES(...)
#else
#define FURTHER_TYPES(...) __VA_ARGS__
#endif
