// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads files that may be compressed with gzip (RFC 1952), from the beginning to the end, as far as
// the caller reads: a file that decompresses to more than its format permits is not decompressed
// beyond that. Without zlib, a compressed file is an error that names the remedy.
#pragma once

#if defined(CORDEE_HAS_ZLIB)
#include <zlib.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

#if defined(CORDEE_HAS_ZLIB)

inline constexpr bool has_zlib = true;

/// The concatenated members of a gzip file; zlib skips the optional header fields and verifies the
/// checksums.
class gzip_stream {
 public:
  explicit gzip_stream(const input_file& file) : file_(file) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&z_, gzip_only) != Z_OK)
      throw error(concat("cannot decompress ", file_.path(), ": no memory"));
  }
  gzip_stream(const gzip_stream&) = delete;
  gzip_stream& operator=(const gzip_stream&) = delete;
  ~gzip_stream() { inflateEnd(&z_); }

  /// Fills `out`. Returns fewer bytes only at the end of the last member. Throws error.
  std::size_t read(std::span<std::uint8_t> out) {
    std::size_t produced = 0;
    while (produced < out.size() && !ended_) {
      refill();
      constexpr std::size_t most = 1u << 30;  // zlib counts in 32 bits
      const auto space = static_cast<uInt>(std::min(out.size() - produced, most));
      z_.next_out = out.data() + produced;
      z_.avail_out = space;
      const int code = inflate(&z_, Z_NO_FLUSH);
      produced += space - z_.avail_out;
      if (code == Z_STREAM_END) {
        ended_ = z_.avail_in == 0 && next_ == file_.size();
        if (!ended_) inflateReset(&z_);  // another member follows
      } else if (code == Z_BUF_ERROR) {
        refuse("the gzip stream ends too early,");  // there is room, so input is missing
      } else if (code != Z_OK) {
        refuse(z_.msg != nullptr ? z_.msg : "the gzip stream is damaged");
      }
    }
    return produced;
  }

 private:
  void refill() {
    if (z_.avail_in != 0) return;
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(input_.size(), file_.size() - next_));
    file_.read_at(next_, std::span(input_).first(n));
    next_ += n;
    z_.next_in = input_.data();
    z_.avail_in = static_cast<uInt>(n);
  }
  [[noreturn]] void refuse(const char* reason) const {
    throw error(concat("cannot decompress ", file_.path(), ": ", reason, " at offset ",
                       next_ - z_.avail_in, " of ", file_.size(), "; fetch the file again"));
  }

  const input_file& file_;
  z_stream z_{};
  std::uint64_t next_ = 0;  // offset of the next bytes of input
  bool ended_ = false;
  std::array<std::uint8_t, 65536> input_;
};

#else

inline constexpr bool has_zlib = false;

struct gzip_stream {
  [[noreturn]] explicit gzip_stream(const input_file& file) {
    throw error(concat(file.path(),
                       " is compressed and this program was built without zlib: run `gunzip ",
                       file.path(), "`, or build with zlib"));
  }
  static std::size_t read(std::span<std::uint8_t>) { return 0; }
};

#endif

/// The bytes of a regular file in their order, decompressed if it begins like a gzip file, whatever
/// its name. All members throw error.
class decompressed_file {
 public:
  explicit decompressed_file(const std::string& path) : file_(path) {
    std::array<std::uint8_t, 2> magic{};
    if (file_.size() >= 2) file_.read_at(0, magic);
    if (magic[0] == 0x1f && magic[1] == 0x8b) stream_ = core::owned_ptr<gzip_stream>::make(file_);
  }
  decompressed_file(const decompressed_file&) = delete;
  decompressed_file& operator=(const decompressed_file&) = delete;

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] bool is_compressed() const { return static_cast<bool>(stream_); }
  /// Bytes of the file itself.
  [[nodiscard]] std::uint64_t file_size() const { return file_.size(); }

  /// Fills `out`. Returns fewer bytes only at the end.
  std::size_t read(std::span<std::uint8_t> out) {
    if (is_compressed()) return stream_->read(out);
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file_.size() - next_));
    file_.read_at(next_, out.first(n));
    next_ += n;
    return n;
  }

  /// Appends bytes until there are `size` or the file ends. Uses memory for what the file has,
  /// which `size` may overstate.
  void append_to(std::vector<std::uint8_t>& bytes, std::uint64_t size) {
    constexpr std::uint64_t least = 1u << 20;
    while (bytes.size() < size) {
      const std::size_t begin = bytes.size();
      const std::uint64_t chunk =
          is_compressed() ? std::max<std::uint64_t>(begin, least) : file_.size() - next_;
      resize_for(bytes, begin + std::min(chunk, size - begin), path());
      const std::size_t n = read(std::span(bytes).subspan(begin));
      const bool ended = n < bytes.size() - begin || n == 0;
      bytes.resize(begin + n);
      if (ended) break;
    }
  }

  /// Whether all bytes are read; reads one more to find out.
  bool at_end() {
    std::uint8_t next = 0;
    return read({&next, 1}) == 0;
  }

 private:
  input_file file_;
  std::uint64_t next_ = 0;  // offset, unless compressed
  core::owned_ptr<gzip_stream> stream_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::io
