// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of a warp's requests: a request of 32 lanes moves whole sectors of 32 bytes,
// so the sectors of a kernel exceed bytes / 32 where lanes do not fill them.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <vector>

namespace support {

/// Counts the sectors of one array's accesses. Each lane's accesses are numbered in its order: the
/// n-th ones of a warp's lanes are one request, which holds where the lanes of a warp access
/// equally often or stop for good.
class sector_counter {
 public:
  explicit sector_counter(std::size_t bytes) : bytes_(bytes) {}

  /// Lane's next access, to number `index`.
  void add(int lane, std::size_t index) {
    auto& own = lanes_[static_cast<std::size_t>(lane)];
    own.push_back(index * bytes_);
  }
  /// All accesses of one warp have been added.
  void end_warp() {
    for (std::size_t n = 0;; ++n) {
      std::set<std::size_t> sectors;
      for (const auto& own : lanes_)
        if (n < own.size())
          for (std::size_t byte = own[n]; byte < own[n] + bytes_; ++byte) sectors.insert(byte / 32);
      if (sectors.empty()) break;
      sectors_ += sectors.size();
    }
    for (auto& own : lanes_) {
      moved_ += own.size() * bytes_;
      own.clear();
    }
  }
  [[nodiscard]] std::size_t bytes() const { return moved_; }
  /// Sectors over bytes / 32.
  [[nodiscard]] double ratio() const {
    return static_cast<double>(sectors_) * 32 / static_cast<double>(moved_);
  }

 private:
  std::size_t bytes_, sectors_ = 0, moved_ = 0;
  std::array<std::vector<std::size_t>, 32> lanes_;
};

}  // namespace support
