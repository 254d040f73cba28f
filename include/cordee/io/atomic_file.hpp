// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Replaces a file as a whole: under its name are the old bytes or all of the new ones, whatever
// fails and whenever the process or the machine stops.
//
// The new bytes go to a partial file in the same folder,
//
//   NAME.<boot>.<random>.partial      boot: hash of the kernel's boot id, 8 digits; random: 16
//
// which is flushed to the disk and renamed; then the folder is flushed. Symbolic links are followed
// and stay. The mode of an existing file is kept (its owner where that is permitted); a new file
// has the umask's.
//
// Partial files of killed writers are removed by the next writer of that name. A live writer holds
// an exclusive flock() on its partial file, which ends with the process. Over NFS the lock may be
// local to each machine (mount options nolock, local_lock). So an unlocked partial file is removed
// at once only if this boot of this kernel made it, where flock() is reliable on every file system;
// those of other machines and boots, when they have not been written for a day by the file system's
// own clock. Where files cannot be locked, none are removed.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/core/clock.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// Returns 0 when all bytes are written, else errno.
inline int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

/// The folder of a path, "." if it names none.
inline std::string parent_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

/// Makes the folders of a path that are missing; the error of one that cannot be made is that of
/// the file which is then written.
inline void make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    ::mkdir(path.substr(0, slash).c_str(), 0777);
}

/// Makes the names in a folder durable. Returns 0, or errno if the disk failed; file systems that
/// cannot flush a folder, and folders that may not be read, count as flushed.
inline int flush_folder(const std::string& folder) {
  const descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.number()) == 0) return 0;
  return errno == EIO || errno == ENOSPC || errno == EDQUOT ? errno : 0;
}

/// The path after symbolic links; a link may lead to a file that does not exist yet.
inline std::string follow_links(std::string path) {
  char target[4096];
  for (int links = 0; links < 40; ++links) {  // as many as the kernel follows
    const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
    if (n <= 0) break;
    const std::string next(target, static_cast<std::size_t>(n));
    path = next.front() == '/' ? next : concat(parent_folder(path), "/", next);
  }
  return path;
}

/// The lowest digits of x in base 16.
inline std::string hexadecimal(std::uint64_t x, int digits) {
  std::string out;
  while (digits-- > 0) out += "0123456789abcdef"[x >> (4 * digits) & 15];
  return out;
}

/// 64 random bits, which no other process draws, also one of the same id on another machine.
inline std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getentropy(&bits, sizeof bits) == 0) return bits;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return static_cast<std::uint64_t>(now) ^ static_cast<std::uint64_t>(::getpid()) << 40;
}

/// Eight digits that identify this boot of this kernel; empty if they are unknown.
inline std::string boot_digits() {
  const descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char id[36];
  if (!file.is_open() || ::read(file.number(), id, sizeof id) != sizeof id) return {};
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hexadecimal(hash, 8);
}

/// The names of the partial files of one file.
struct partial_name {
  static constexpr std::string_view ending = ".partial";
  static constexpr std::size_t boot_size = 8, random_size = 16;

  std::string prefix;  // the file's name, cut where names would become too long for a folder
  std::string boot = boot_digits();

  explicit partial_name(const std::string& path)
      : prefix(path.substr(path.rfind('/') + 1).substr(0, 200) + ".") {}

  [[nodiscard]] std::string with(std::uint64_t random) const {
    return concat(prefix, boot.empty() ? hexadecimal(0, boot_size) : boot, ".",
                  hexadecimal(random, random_size), ending);
  }
  [[nodiscard]] bool matches(std::string_view name) const {
    constexpr std::size_t rest = boot_size + 1 + random_size;
    return name.size() == prefix.size() + rest + ending.size() && name.starts_with(prefix) &&
           name.ends_with(ending) && name[prefix.size() + boot_size] == '.';
  }
  /// Whether a file of that name was made by this boot of this kernel.
  [[nodiscard]] bool is_of_this_boot(std::string_view name) const {
    return !boot.empty() && name.substr(prefix.size(), boot_size) == boot;
  }
};

/// Removes the partial files of dead writers from a folder; `now` is the file system's time.
inline void remove_strays(const std::string& folder, const partial_name& names, std::time_t now) {
  constexpr std::time_t day = 24 * 60 * 60;
  ::DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const ::dirent* entry = ::readdir(entries)) {
    if (!names.matches(entry->d_name)) continue;
    // For writing: NFS gives an exclusive lock to such descriptors alone.
    const descriptor file(
        ::openat(::dirfd(entries), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct ::stat status {};
    if (!file.is_open() || ::flock(file.number(), LOCK_EX | LOCK_NB) != 0 ||
        ::fstat(file.number(), &status) != 0)
      continue;
    // If its writer has renamed it meanwhile, the name is gone: random names do not return.
    if (names.is_of_this_boot(entry->d_name) || now - status.st_mtime > day)
      ::unlinkat(::dirfd(entries), entry->d_name, 0);
  }
  ::closedir(entries);
}

/// A file that is being replaced: write(), then commit(). Without commit() nothing changes.
class atomic_file {
 public:
  /// Creates the partial file. `random` is drawn from anew while its name is taken. Throws error.
  template <class Random = std::uint64_t (*)()>
  explicit atomic_file(const std::string& path, const Random& random = random_bits)
      : path_(path), target_(follow_links(path)), folder_(parent_folder(target_)) {
    struct ::stat old {};
    exists_ = ::stat(target_.c_str(), &old) == 0;
    if (!exists_ && errno != ENOENT) refuse(errno);
    if (exists_ && !S_ISREG(old.st_mode))
      throw error(concat("cannot write ", path_,
                         ": it is not a regular file and cannot be replaced; choose another path"));
    mode_ = old.st_mode & 07777;
    const partial_name names(target_);
    create(names, random);

    struct ::stat created {};
    if (::fstat(file_.number(), &created) != 0) remove_and_throw(errno);
    // The owner first, since that clears bits of the mode; it is kept only where that is permitted.
    if (exists_ && (old.st_uid != created.st_uid || old.st_gid != created.st_gid))
      if (::fchown(file_.number(), old.st_uid, old.st_gid) != 0) errno = 0;
    remove_strays(folder_, names, created.st_mtime);
  }
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() {
    if (!partial_.empty()) ::unlink(partial_.c_str());
  }

  /// Throws error; then the partial file is gone.
  void write(std::span<const std::byte> bytes) {
    if (const int failed = write_all(file_.number(), bytes); failed != 0) remove_and_throw(failed);
  }

  /// Puts what was written under the final name. Throws error.
  void commit() {
    if (exists_ && ::fchmod(file_.number(), mode_) != 0) {
      struct ::stat created {};  // file systems without modes fail, where all files have the same
      if (::fstat(file_.number(), &created) != 0 || (created.st_mode & 07777) != mode_)
        remove_and_throw(errno);
    }
    if (::fsync(file_.number()) != 0) remove_and_throw(errno);
    // Closes a copy, since some file systems report a failed write only then; the lock stays.
    if (descriptor copy(::fcntl(file_.number(), F_DUPFD_CLOEXEC, 0));
        const int failed = copy.close())
      remove_and_throw(failed);
    if (std::rename(partial_.c_str(), target_.c_str()) != 0) remove_and_throw(errno);
    partial_.clear();
    if (const int failed = flush_folder(folder_); failed != 0)
      throw error(concat("wrote ", path_, ", but the folder ", folder_,
                         " could not be flushed: ", error_message(failed),
                         "; the file may be lost if the machine stops: check the disk"));
  }

 private:
  // Between creation and lock a writer that removes strays may take the file: then another is made.
  void create(const partial_name& names, const auto& random) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      partial_ = concat(folder_, "/", names.with(random()));
      const ::mode_t mode = exists_ ? (mode_ & 0777) | 0600 : 0666;
      file_ = descriptor(
          ::open(partial_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
      if (!file_.is_open() && errno == EEXIST) continue;
      if (!file_.is_open()) {
        partial_.clear();
        refuse(errno);
      }
      const bool taken = ::flock(file_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      struct ::stat status {};
      if (!taken && ::fstat(file_.number(), &status) == 0 && status.st_nlink > 0) return;
      ::unlink(partial_.c_str());
    }
    partial_.clear();
    refuse(EEXIST);
  }

  [[noreturn]] void remove_and_throw(int code) {
    ::unlink(partial_.c_str());
    partial_.clear();
    refuse(code);
  }

  [[noreturn]] void refuse(int code) const {
    throw error(concat("cannot write ", path_, ": ", error_message(code), "; ",
                       exists_ ? "the old file is unchanged. " : "no file was made. ",
                       remedy(code)));
  }
  [[nodiscard]] std::string remedy(int code) const {
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
      return "Free some space or choose another path";
    if (code == EACCES || code == EPERM || code == EROFS)
      return concat("Make the folder ", folder_, " writable or choose another path");
    if (code == ENOENT || code == ENOTDIR)
      return concat("Create the folder ", folder_, " or choose another path");
    if (code == EMFILE || code == ENFILE) return "Close files or raise the limit (ulimit -n)";
    return "Choose another path";
  }

  std::string path_, target_, folder_;  // as given; after symbolic links; its folder
  bool exists_ = false;
  ::mode_t mode_ = 0;    // of the old file
  std::string partial_;  // empty when there is none to remove
  descriptor file_{-1};
};

/// Replaces `path` by the concatenation of the pieces. Throws error; then the old file is unchanged
/// and no partial file remains.
inline void write_file(const std::string& path,
                       std::span<const std::span<const std::byte>> pieces) {
  atomic_file file(path);
  for (const auto& piece : pieces) file.write(piece);
  file.commit();
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
