// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One sample cannot be used; the others can.
#pragma once

#include <string>

#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// A damaged or unsupported image, or a record whose checksum is wrong. What may be skipped is
/// thrown as this type; an unreadable folder or disk is an `error` alone.
class sample_error : public error {
 public:
  explicit sample_error(const std::string& message,
                        std::source_location location = std::source_location::current())
      : error(message, location) {}
};

/// What is done with samples that cannot be used: the run ends with an error, or they are counted
/// and named, and left out (of an index) or replaced by the next one (when they are decoded).
enum class broken_image { refuse, skip };

}  // namespace cordee::inline CORDEE_ABI
