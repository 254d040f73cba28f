// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One sample cannot be used; the others can.
#pragma once

#include <string>

#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// A damaged or unsupported image, or a record with a wrong checksum. What may be skipped is thrown
/// as this type; an unreadable folder or disk is a plain `error`.
class sample_error : public error {
 public:
  /// `message` names the sample, its fault and the remedy.
  explicit sample_error(const std::string& message,
                        std::source_location location = std::source_location::current())
      : error(message, location) {}
};

/// How unusable samples are handled.
enum class broken_image {
  refuse,  ///< An error ends the run.
  skip     ///< They are counted, reported, and left out, or replaced by the next when read.
};

}  // namespace cordee::inline CORDEE_ABI
