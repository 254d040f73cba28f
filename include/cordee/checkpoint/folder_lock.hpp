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
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cordee/core/error.hpp>
#include <cordee/core/host_name.hpp>
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
    if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) refuse_or_warn(folder, errno);
    const std::string text = concat("process ", ::getpid(), " on ", core::host_name());
    // Best effort: without its text the lock still holds.
    if (::ftruncate(file_.number(), 0) != 0 ||
        ::pwrite(file_.number(), text.data(), text.size(), 0) < 0)
      return;
  }

 private:
  void refuse_or_warn(const std::string& folder, int reason) const {
    if (reason != EWOULDBLOCK) {
      std::fprintf(stderr, "checkpoint: %s is not locked against other jobs: %s\n", folder.c_str(),
                   io::error_message(reason).c_str());
      return;
    }
    std::array<char, 200> holder{};
    const ssize_t n = ::pread(file_.number(), holder.data(), holder.size() - 1, 0);
    throw error(concat("checkpoint: ", n > 0 ? holder.data() : "another process", " saves into ",
                       folder, ": end it, or name another folder"));
  }

  io::descriptor file_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
