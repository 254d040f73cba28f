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
  /// `message` names the sample, what is wrong with it, and the remedy.
  explicit sample_error(const std::string& message,
                        std::source_location location = std::source_location::current())
      : error(message, location) {}
};

/// What is done with samples that cannot be used.
enum class broken_image {
  refuse,  ///< An error ends the run.
  skip     ///< They are counted, named, and left out, or replaced by the next when read.
};

}  // namespace cordee::inline CORDEE_ABI
