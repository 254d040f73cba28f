// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A step's measured seconds, from a table. examples/plan/measure.cpp writes such tables on a CPU.
//
//   # text after this sign, and empty lines, are ignored
//   part,tensor,images,seconds
//   forward,,32,0.0612               all layers
//   backward,conv1.weight,32,0.0021  from the previous gradient until this one is ready
//   optimizer,,32,0.0008
//
// One line per trainable tensor, all for the same number of images.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <istream>
#include <span>
#include <string_view>
#include <vector>

#include <cordee/comm/simulated/step.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

class step_times_file {
 public:
  step_times_file(std::span<const segment> table, double images) : images_(images) {
    profile_.table.assign(table.begin(), table.end());
    profile_.backward.assign(table.size(), missing);
    profile_.forward = profile_.optimizer = missing;
  }

  void read(std::istream& in) {
    std::array<char, 512> text{};
    bool begun = false;
    while (in.getline(text.data(), text.size()) || in.gcount() > 0) {
      ++line_;
      if (in.fail()) refuse("longer than 511 characters: not a table of times");
      std::string_view line(text.data());
      line = line.substr(0, line.find('#'));
      while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      if (begun)
        add(line);
      else if (line != "part,tensor,images,seconds")
        refuse("the first line is to be part,tensor,images,seconds");
      begun = true;
    }
  }
  step_profile profile() {
    const auto expect = [](double seconds, std::string_view part, std::string_view tensor) {
      if (seconds == missing)
        throw error(
            concat("step times: no line ", part, ",", tensor, "; measure this network again"));
    };
    expect(profile_.forward, "forward", "");
    expect(profile_.optimizer, "optimizer", "");
    for (std::size_t k = 0; k < profile_.table.size(); ++k)
      expect(profile_.backward[k], "backward", profile_.table[k].name);
    profile_.forward *= images_ / measured_images_;
    for (double& seconds : profile_.backward) seconds *= images_ / measured_images_;
    return profile_;
  }

 private:
  static constexpr double missing = -1;

  [[noreturn]] void refuse(std::string_view what) const {
    throw error(concat("step times: line ", line_, ": ", what));
  }
  /// A finite number of at least zero.
  double number(std::string_view name, std::string_view text) const {
    double x = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), x);
    if (status != std::errc{} || end != text.data() + text.size() || !(x >= 0) || !std::isfinite(x))
      refuse(concat(name, " is a number of at least 0, not \"", text, "\""));
    return x;
  }
  double& seconds_of(std::string_view part, std::string_view tensor) {
    if (part == "backward") {
      for (std::size_t k = 0; k < profile_.table.size(); ++k)
        if (profile_.table[k].name == tensor) return profile_.backward[k];
      refuse(concat("this network has no tensor \"", tensor, "\"; measure it, not another one"));
    }
    if (!tensor.empty()) refuse(concat(part, " has no tensor: ", part, ",,images,seconds"));
    if (part == "forward") return profile_.forward;
    if (part == "optimizer") return profile_.optimizer;
    refuse(concat("\"", part, "\" is none of forward, backward, optimizer"));
  }
  void add(std::string_view line) {
    std::array<std::string_view, 4> fields;
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t comma = line.find(',');
      if (comma == line.npos) refuse("four fields are needed: part,tensor,images,seconds");
      fields[k] = line.substr(0, comma);
      line.remove_prefix(comma + 1);
    }
    fields[3] = line;
    double& seconds = seconds_of(fields[0], fields[1]);
    if (seconds != missing) refuse(concat(fields[0], ",", fields[1], " is there twice"));
    const double images = number("images", fields[2]);
    if (images == 0) refuse("images are at least 1");
    if (measured_images_ != 0 && images != measured_images_)
      refuse(concat(images, " images, after ", measured_images_, ": measure all with one batch"));
    measured_images_ = images;
    seconds = number("seconds", fields[3]);
  }

  step_profile profile_;
  double images_, measured_images_ = 0;
  std::size_t line_ = 0;
};

}  // namespace detail::comm

/// Reads the times of a step on `images` images: forward and backward scale with their number, the
/// optimizer's time does not.
/// @throws error, with the line, for anything but a table of this network; usage_error for less
/// than one image.
inline step_profile read_step_times(std::istream& in, std::span<const segment> table, int images) {
  expects(images > 0, "read_step_times: images are at least 1");
  detail::comm::step_times_file file(table, images);
  file.read(in);
  return file.profile();
}

}  // namespace cordee::inline CORDEE_ABI
