// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The locale of an application that writes 1.234,5: of C where the system has it, and of streams.
#pragma once

#include <clocale>
#include <cstdlib>
#include <locale>
#include <string>

namespace support {

/// Restores both locales at its end.
class foreign_locale {
 public:
  foreign_locale()
      : c_(std::setlocale(LC_ALL, nullptr)),
        streams_(std::locale::global(std::locale(std::locale::classic(), new comma))) {
    for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8"})
      if (!of_c()) std::setlocale(LC_ALL, name);
#if defined(CORDEE_TEST_LOCALES)  // made when the tests were configured
    if (!of_c()) {
      ::setenv("LOCPATH", CORDEE_TEST_LOCALES, 1);
      std::setlocale(LC_ALL, "de_DE.UTF-8");
      ::unsetenv("LOCPATH");
    }
#endif
  }
  foreign_locale(const foreign_locale&) = delete;
  foreign_locale& operator=(const foreign_locale&) = delete;
  ~foreign_locale() {
    std::locale::global(streams_);
    std::setlocale(LC_ALL, c_.c_str());
  }

  /// Whether printf writes a comma.
  [[nodiscard]] static bool of_c() { return *std::localeconv()->decimal_point == ','; }

 private:
  struct comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  std::string c_;
  std::locale streams_;
};

}  // namespace support
