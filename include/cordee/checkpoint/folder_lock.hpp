// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Two jobs do not save into one folder: the second one is refused, with the name of the first.
//
// The lock is the operating system's on the file `lock`, so it ends with the process that holds it,
// however that ends; the file's text names its holder.
#pragma once

#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

class folder_lock {
 public:
  /// Throws error if another job, or another run of this one, has locked the folder.
  explicit folder_lock(const std::string& folder)
      : file_(::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (!file_.is_open())
      throw error(concat("checkpoint: cannot write ", folder, "/lock: ", io::error_message(errno),
                         "; name a folder that can be written"));
    if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
      std::array<char, 200> holder{};
      const ssize_t n = ::pread(file_.number(), holder.data(), holder.size(), 0);
      throw error(concat(
          "checkpoint: ", std::string(holder.data(), n > 0 ? static_cast<std::size_t>(n) : 0),
          " saves into ", folder, ": end it, or name another folder"));
    }
    std::array<char, 100> host{};
    ::gethostname(host.data(), host.size() - 1);
    const std::string text = concat("process ", ::getpid(), " on ", host.data());
    if (::ftruncate(file_.number(), 0) == 0)
      io::write_all(file_.number(), std::as_bytes(std::span(text)));
  }

 private:
  io::descriptor file_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
