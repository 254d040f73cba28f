// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that writes a TensorBoard event file, without TensorFlow or protobuf.
//
// The file is a sequence of TFRecords,
//
//   length (8 bytes), masked CRC-32C of it (4), data, masked CRC-32C of the data (4)
//
// whose data are messages `Event` (tensorflow/core/util/event.proto): wall_time (1, double), step
// (2, varint), and file_version (3, string) with source_metadata (10) in the first one, or summary
// (5) or session_log (7) in the others; a summary has a value (1) with tag (1, string) and
// simple_value (2, float). A session_log of status (1) START invalidates what other files of the
// folder have from its step on.
#pragma once

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/core/error.hpp>
#include <cordee/core/host_name.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/io/crc32c.hpp>
#include <cordee/io/file.hpp>
#include <cordee/train/callbacks/record.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Appends the low bytes of a number, the lowest first.
void append_bytes(auto& out, std::uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k) & 0xff);
}
void append_varint(auto& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}
/// A field of protobuf's wire type 2: a string or a message.
void append_field(auto& out, unsigned number, std::string_view value) {
  append_varint(out, number << 3 | 2);
  append_varint(out, value.size());
  out += value;
}

/// Masked CRC-32C of the bytes, for their frame.
std::uint64_t checksum_of_bytes(const auto& s) {
  return io::masked_crc(io::crc32c({reinterpret_cast<const std::uint8_t*>(s.data()), s.size()}));
}

/// An Event with its frame. `step` of the first one is absent, which means 0. `rest`: further
/// fields.
template <class String = std::string>
String event_record(double wall_time, std::int64_t step, unsigned field, std::string_view value,
                    std::string_view rest = {}) {
  String data = "\x09";  // field 1, 8 bytes
  append_bytes(data, std::bit_cast<std::uint64_t>(wall_time), 8);
  if (step != 0) {
    data += '\x10';  // field 2, varint
    append_varint(data, static_cast<std::uint64_t>(step));
  }
  append_field(data, field, value);
  data += rest;
  String record;
  append_bytes(record, data.size(), 8);
  append_bytes(record, checksum_of_bytes(record), 4);
  record += data;
  append_bytes(record, checksum_of_bytes(data), 4);
  return record;
}

/// So many bytes of a number, the lowest first.
std::uint64_t number_at(const auto& s, std::size_t at, std::size_t bytes) {
  std::uint64_t out = 0;
  for (std::size_t k = bytes; k-- > 0;) out = out << 8 | static_cast<unsigned char>(s[at + k]);
  return out;
}

/// The Event whose frame begins at `at`; empty at the file's end, and where less than a whole one
/// is left, as a killed run leaves it.
template <class String = std::string>
String read_event(const io::input_file& file, std::uint64_t at) {
  const auto read = [&](std::uint64_t from, std::uint64_t size) {
    String bytes(static_cast<std::size_t>(size), '\0');
    file.read_at(from, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  };
  if (file.size() - at < 16) return {};
  const String head = read(at, 12);
  const std::uint64_t size = number_at(head, 0, 8);
  if (size > file.size() - at - 16 ||
      number_at(head, 8, 4) != checksum_of_bytes(std::string_view(head).substr(0, 8)))
    return {};
  const String data = read(at + 12, size);
  return number_at(read(at + 12 + size, 4), 0, 4) == checksum_of_bytes(data) ? data : String();
}

/// The step of an Event of event_record().
std::int64_t step_of_event(const auto& data) {
  std::uint64_t step = 0;
  if (data.size() < 10 || data[9] != '\x10') return 0;
  int shift = 0;
  for (std::size_t at = 10; at < data.size() && shift < 64; ++at, shift += 7) {
    step |= std::uint64_t{static_cast<unsigned char>(data[at]) & 0x7fu} << shift;
    if (static_cast<unsigned char>(data[at]) < 0x80) break;
  }
  return static_cast<std::int64_t>(step);
}

/// A Summary of one scalar.
template <class String = std::string>
String scalar_summary(std::string_view tag, double value) {
  String scalar, summary;
  append_field(scalar, 1, tag);
  scalar += '\x15';  // field 2, 4 bytes
  append_bytes(scalar, std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
  append_field(summary, 1, scalar);
  return summary;
}

/// Writes train/loss, train/accuracy, train/learning_rate, train/gradient_norm (where the ranks'
/// gradients differ train/gradient_norm_local), train/images_per_second, train/skipped and the
/// measurements of step_record that the run has for each step, train/consensus_distance and
/// validation/loss, validation/accuracy and validation/accuracy_top5 for each epoch, to
/// FOLDER/events.out.tfevents.<seconds>.<host>.<process>.<number>; `tensorboard --logdir FOLDER`
/// shows them, those of the last few seconds excepted.
///
/// The folder is made if its last part is missing. A further fit with the same object appends; a
/// resumed run writes a new file beside the old one, as is TensorBoard's convention. It removes the
/// steps that it repeats, and half a record at the end, from the files that this class has written
/// there, and declares them void in those of other programs.
template <class String = std::string>
class basic_tensorboard {
 public:
  /// `begin` creates the file.
  explicit basic_tensorboard(String folder) : folder_(std::move(folder)) {}

  /// Creates the folder. @throws error if it cannot be created or written.
  template <class Run>
  void check_on_all_ranks(Run& run, double) {
    if (run.comm().rank() == 0 && !file_) make_folder();
  }
  /// Creates the file, unless this object has one. @throws error if it cannot be written; on a full
  /// disk, as do the following.
  void begin(const run_plan& p) {
    previous_seconds_ = flushed_seconds_ = 0;
    const bool goes_on = file_ && !(in_fit_ && p.first_step > 0);  // the fit before has not thrown
    in_fit_ = true;
    if (goes_on) return;
    file_.reset();
    if (p.first_step > 0) cut_files(p.first_step);
    open();
    write(event_record(now(), 0, 3, "brain.Event:2", writer));
    if (p.first_step > 0) write(event_record(now(), p.first_step, 7, "\x08\x01"));
    flush();
  }
  /// Writes the update, which reaches the file within about five seconds.
  void step(const step_record& r) {
    const std::int64_t k = r.info.step;
    scalar(k, "train/learning_rate", r.info.learning_rate);
    scalar(k, r.grad_norm_local ? "train/gradient_norm_local" : "train/gradient_norm", r.grad_norm);
    scalar(k, "train/skipped", static_cast<double>(r.skipped));
    if (r.train.count > 0) {
      scalar(k, "train/loss", r.train.mean_loss());
      if (r.train.top1 >= 0) scalar(k, "train/accuracy", r.train.accuracy());
    }
    if (r.seconds > previous_seconds_)
      scalar(k, "train/images_per_second",
             static_cast<double>(r.train.count) / (r.seconds - previous_seconds_));
    previous_seconds_ = r.seconds;
    for_measurements(r, [&](const char* name, const auto& value) {
      if (value) scalar(k, concat("train/", name), *value);
    });
    if (r.seconds - flushed_seconds_ < 5) return;
    flush();
    flushed_seconds_ = r.seconds;
  }
  /// Writes the validation and the consensus distance.
  void epoch(const epoch_record& e) {
    const std::int64_t k = e.last.info.step;
    if (e.consensus_distance) scalar(k, "train/consensus_distance", *e.consensus_distance);
    if (e.validation && e.validation->count > 0) {
      scalar(k, "validation/loss", e.validation->mean_loss());
      if (e.validation->top1 >= 0) scalar(k, "validation/accuracy", e.validation->accuracy());
      if (e.validation->top1 >= 0 && e.validation->top5 >= 0)
        scalar(k, "validation/accuracy_top5", e.validation->top5_accuracy());
    }
    flush();
  }
  /// Writes a number of your own for an update, `step` being its step_info::step. No effect before
  /// fit has begun, and on ranks other than 0, which have no file.
  void scalar(std::int64_t step, std::string_view tag, double value) {
    if (file_) write(event_record(now(), step, 5, scalar_summary(tag, value)));
  }
  /// Flushes what is still in memory.
  void end(const run_summary&) {
    flush();
    in_fit_ = false;
  }

 private:
  static constexpr std::string_view writer =
      "\x52\x08\x0a\x06"
      "cordee";  // source_metadata
  struct file_closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
    void operator()(DIR* d) const { ::closedir(d); }
  };

  void cut_files(std::int64_t first_step) {
    const detail::core::owned_ptr<DIR, file_closer> all(::opendir(folder_.c_str()));
    while (const ::dirent* const entry = all ? ::readdir(all.get()) : nullptr)
      if (std::string_view(entry->d_name).starts_with("events.out.tfevents."))
        cut(concat(folder_, "/", entry->d_name), first_step);
  }
  void cut(const String& path, std::int64_t first_step) {
    const io::input_file file(path);
    std::uint64_t keep = 0;
    String data;
    while (!(data = read_event(file, keep)).empty()) {
      if (keep == 0 && !data.ends_with(writer)) return;
      if (step_of_event(data) >= first_step) break;
      keep += data.size() + 16;
    }
    path_ = path;
    if (keep > 0 && keep < file.size() && ::truncate(path.c_str(), static_cast<off_t>(keep)) != 0)
      fail("shorten");
  }

  void make_folder() {
    if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST)
      throw error(concat("tensorboard: cannot make the folder \"", folder_, "\": ",
                         std::strerror(errno), "; make the folder that holds it, or name another"));
    path_ = folder_;
    if (::access(folder_.c_str(), W_OK | X_OK) != 0) fail("write to");
  }
  void open() {
    make_folder();
    const std::string name = detail::core::host_name(), host = name.empty() ? "localhost" : name;
    for (int number = 0; !file_ && number < 1000; ++number) {  // "x": never another run's file
      path_ = concat(folder_, "/events.out.tfevents.", static_cast<std::int64_t>(now()), ".", host,
                     ".", static_cast<std::int64_t>(::getpid()), ".", number);
      file_.reset(std::fopen(path_.c_str(), "wx"));
      if (!file_ && errno != EEXIST) break;
    }
    if (!file_) fail("make");
  }
  [[nodiscard]] static double now() {
    std::timespec t{};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  void write(const String& record) {
    if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) fail("write");
  }
  void flush() {
    if (file_ && std::fflush(file_.get()) != 0) fail("write");
  }
  [[noreturn]] void fail(const char* verb) const {
    throw error(concat("tensorboard: cannot ", verb, " \"", path_, "\": ", std::strerror(errno),
                       "; name a folder that can be written, on a disk that has room"));
  }

  String folder_, path_;
  detail::core::owned_ptr<std::FILE, file_closer> file_;
  bool in_fit_ = false;
  double previous_seconds_ = 0, flushed_seconds_ = 0;  // of the run
};

}  // namespace detail::train

/// Writes TensorBoard's events.
using tensorboard = detail::train::basic_tensorboard<>;

}  // namespace cordee::inline CORDEE_ABI
