// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages of one simulated rank to another on one context, in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <cordee/comm/transports/simulated/critical_path.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct simulated_message {
  critical_path begin;   // of the transfer, at the sender
  std::uint64_t rounds;  // that had ended on the sender when it posted the message
  std::size_t size;
  std::unique_ptr<std::byte[]> bytes{};  // none on a device without memory

  void copy_from(const std::byte* data) {
    if (size == 0) return;
    bytes = std::make_unique_for_overwrite<std::byte[]>(size);
    std::memcpy(bytes.get(), data, size);
  }
  void copy_to(std::byte* data) const {
    if (size != 0) std::memcpy(data, bytes.get(), size);
  }
};

class simulated_channel {
 public:
  [[nodiscard]] bool empty() const { return first_ == messages_.size(); }
  [[nodiscard]] const simulated_message& front() const { return messages_[first_]; }
  void push(simulated_message m) { messages_.push_back(std::move(m)); }
  simulated_message pop() {
    simulated_message m = std::move(messages_[first_++]);
    if (empty()) {
      messages_.clear();
      first_ = 0;
    }
    return m;
  }

  static constexpr std::size_t no_fiber = ~std::size_t{0};
  std::size_t receiver = no_fiber;  // the fiber that waits for a message
  std::size_t awaited_size = 0;     // of that message

 private:
  std::vector<simulated_message> messages_;
  std::size_t first_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
