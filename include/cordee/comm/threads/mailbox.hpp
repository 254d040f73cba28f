// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank has said to another on one lane, in order: a list that needs no lock.
//
//   the writer hangs a note behind the last one; the reader reads the one behind the note it read
//   before; notes older than that one are blank again (Vyukov's queue of one writer, one reader)
//
// A note is a copy, or a pointer into the writer's memory with a receipt that the writer awaits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail {

struct note;

/// Lives where its writer waits.
struct receipt {
  note* of = nullptr;             // nullptr: nothing to wait for
  bool taken = false;             // under the mailbox's mutex; then `of` is the reader's
  std::atomic<bool> done{false};  // the reader's last word
};

struct note {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  receipt* awaited = nullptr;
  std::vector<std::byte> copy;
  bool withdrawn = false;  // under the mailbox's mutex
  std::uint64_t turn = 0;  // among the notes of all writers to that reader, where they are counted
  std::atomic<note*> next{nullptr};
};

class mailbox {
 public:
  mailbox() = default;
  mailbox(const mailbox&) = delete;
  mailbox& operator=(const mailbox&) = delete;
  ~mailbox() {
    while (oldest_ != nullptr) delete std::exchange(oldest_, oldest_->next.load());
  }

  // ---- the writer's end ----

  /// Whether a copy may wait here: a reader that falls behind by more is waited for.
  [[nodiscard]] bool has_room() { return has_blank() || notes_ < room; }

  void lay_copy(const std::byte* data, std::size_t size, std::uint64_t turn = 0) {
    note& n = blank();
    n.copy.assign(data, data + size);
    n.turn = turn;
    hang(n, n.copy.data(), size, nullptr);
  }
  void lay(const std::byte* data, std::size_t size, receipt& awaited, std::uint64_t turn = 0) {
    awaited.of = &blank();
    awaited.of->turn = turn;
    hang(*awaited.of, data, size, &awaited);
  }

  /// Whether the reader has not begun to read, and never will.
  bool withdraw(const receipt& awaited) {
    const std::scoped_lock lock(mutex_);
    if (!awaited.taken) awaited.of->withdrawn = true;
    return !awaited.taken;
  }

  // ---- the reader's end ----

  /// The oldest note that was not read, or nullptr.
  [[nodiscard]] const note* next() const { return read_.load()->next; }

  /// Whether that note's memory may be read: its writer now waits.
  bool take() {
    const note& n = *next();
    if (n.awaited == nullptr) return true;
    const std::scoped_lock lock(mutex_);
    if (!n.withdrawn) n.awaited->taken = true;
    return !n.withdrawn;
  }
  /// That note has been read.
  void drop() { read_ = read_.load()->next.load(); }

 private:
  static constexpr std::size_t room = 16;

  bool has_blank() {
    if (oldest_ == seen_) seen_ = read_;  // the reader's cache line: seldom looked at
    return oldest_ != seen_;
  }
  note& blank() {
    if (has_blank()) return *std::exchange(oldest_, oldest_->next.load());
    ++notes_;
    return *new note;
  }
  void hang(note& n, const std::byte* data, std::size_t size, receipt* awaited) {
    n.data = data;
    n.size = size;
    n.awaited = awaited;
    n.next = nullptr;
    std::exchange(last_, &n)->next = &n;
  }

  note *oldest_ = new note, *last_ = oldest_, *seen_ = oldest_;
  std::size_t notes_ = 1;
  alignas(64) std::atomic<note*> read_{oldest_};
  std::mutex mutex_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
