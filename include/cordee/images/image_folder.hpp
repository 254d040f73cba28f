// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A folder of images with one subfolder per class, with the classes and the order of torchvision's
// ImageFolder: class names sorted by code points, each class's folders at any depth sorted by path,
// files sorted in each; symbolic links are followed. Other files, in the classes and beside them,
// are ignored and counted.
//
//   train/daisy/1.jpg   train/daisy/more/2.jpg   train/roses/3.png      0 daisy, 1 roses
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <sys/stat.h>

#include <cordee/core/error.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/images/reason_counts.hpp>
#include <cordee/images/sample_error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::images {

/// The names in one folder.
struct folder_entries {
  std::vector<std::string> folders, files;  // sorted; files are regular ones
};

/// Throws error, also for a name that is neither a folder nor a regular file.
inline folder_entries list_folder(const std::string& path) {
  const std::unique_ptr<::DIR, int (*)(::DIR*)> folder(::opendir(path.c_str()), ::closedir);
  const auto refuse = [](const std::string& name, const std::string& reason) {
    throw error(concat("cannot read ", name, ": ", reason));
  };
  if (!folder) refuse(path, concat(detail::io::error_message(errno), "; check the path"));
  folder_entries entries;
  for (;;) {
    errno = 0;
    const ::dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0) refuse(path, detail::io::error_message(errno));
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    ::mode_t mode = entry->d_type == DT_REG ? S_IFREG : entry->d_type == DT_DIR ? S_IFDIR : 0;
    if (mode == 0) {  // a symbolic link, or a file system that does not say
      struct ::stat status {};
      if (::stat(concat(path, "/", name).c_str(), &status) != 0)
        refuse(concat(path, "/", name), concat(detail::io::error_message(errno),
                                               "; if it is a symbolic link to nothing, remove it"));
      mode = status.st_mode;
    }
    if (S_ISDIR(mode))
      entries.folders.push_back(name);
    else if (S_ISREG(mode))
      entries.files.push_back(name);
    else
      refuse(concat(path, "/", name), "it is a pipe, a socket or a device; remove it");
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

/// Whether the name ends, in upper or lower case, with one of the endings.
inline bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) {
    return name.size() >= ending.size() &&
           std::equal(ending.begin(), ending.end(), name.end() - std::ssize(ending),
                      [&](char e, char c) { return e == lower(c); });
  });
}
inline bool is_image_name(std::string_view name) {
  return ends_with_any(name, {".jpg", ".jpeg", ".png"});
}
/// Images for torchvision, which are not decoded here.
inline bool is_other_image_name(std::string_view name) {
  return ends_with_any(name, {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"});
}

/// Appends the folders at and below `path`; `above` are those that contain it. Throws error for a
/// symbolic link to one of these.
inline void find_folders(const std::string& path, std::vector<std::pair<::dev_t, ::ino_t>>& above,
                         std::vector<std::string>& found) {
  struct ::stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw error(concat("cannot read ", path, ": ", detail::io::error_message(errno)));
  const std::pair<::dev_t, ::ino_t> folder(status.st_dev, status.st_ino);
  if (std::find(above.begin(), above.end(), folder) != above.end())
    throw error(concat("cannot read ", path, ": a symbolic link to a folder that contains it; ",
                       "remove the link"));
  found.push_back(path);
  above.push_back(folder);
  for (const std::string& name : list_folder(path).folders)
    find_folders(concat(path, "/", name), above, found);
  above.pop_back();
}

/// The folders at and below `path`, sorted by their paths.
inline std::vector<std::string> folders_below(const std::string& path) {
  std::vector<std::pair<::dev_t, ::ino_t>> above;
  std::vector<std::string> found;
  find_folders(path, above, found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace detail::images

/// Options of image_folder.
struct image_folder_options {
  /// Whether images in formats that torchvision lists and this library cannot decode (.bmp, .pgm,
  /// .ppm, .tif, .tiff, .webp) are an error or left out, so that later samples have smaller
  /// indices.
  broken_image other_formats = broken_image::refuse;
};

/// The images of a folder, an EncodedDataset. A copy shares the list of files.
class image_folder {
 public:
  /// Lists the folder. @throws error if it cannot be read, has no subfolders, or a class has no
  /// images; for a file of another format that is refused, a pipe, socket or device, and a symbolic
  /// link that is broken or leads to a parent folder.
  explicit image_folder(const std::string& path, image_folder_options options = {}) {
    auto all = std::make_shared<contents>();
    all->path = path;
    detail::images::folder_entries top = detail::images::list_folder(path);
    all->classes = std::move(top.folders);
    for (const std::string& file : top.files)
      all->passed_over.add("files beside the classes", file);
    if (all->classes.empty())
      throw error(concat(path, ": no folders, each of which would be a class; check the path"));
    std::string empty;
    for (std::size_t label = 0; label < all->classes.size(); ++label) {
      const std::size_t before = all->samples.size();
      add_class(*all, static_cast<std::int32_t>(label), options);
      if (all->samples.size() == before)
        empty += concat(empty.empty() ? "" : ", ", all->classes[label]);
    }
    if (!empty.empty())
      throw error(concat(path, ": no image (.jpg, .jpeg, .png) for the classes ", empty,
                         "; add images, or remove these folders"));
    all->names.shrink_to_fit();
    contents_ = std::move(all);
  }

  /// Number of folders in `path`.
  [[nodiscard]] int classes() const { return static_cast<int>(contents_->classes.size()); }
  /// Their names, sorted; a label is an index into them.
  [[nodiscard]] const std::vector<std::string>& class_names() const { return contents_->classes; }
  [[nodiscard]] std::size_t size() const { return contents_->samples.size(); }  ///< Image files.

  /// See EncodedDataset. @throws usage_error for an index of size() or above; error for a file that
  /// cannot be read.
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    expects(i < size(), "image_folder: the index is beyond the data set");
    const detail::io::input_file file(name(i));
    detail::io::resize_for(bytes, file.size(), file.path());
    file.read_at(0, bytes);
    return contents_->samples[i].label;
  }

  /// The label that `read` returns, without reading the file. @throws usage_error for an index of
  /// size() or above.
  [[nodiscard]] int label(std::size_t i) const {
    expects(i < size(), "image_folder: the index is beyond the data set");
    return contents_->samples[i].label;
  }
  /// The file's path. @throws usage_error for an index of size() or above.
  [[nodiscard]] std::string name(std::size_t i) const {
    expects(i < size(), "image_folder: the index is beyond the data set");
    const sample& s = contents_->samples[i];
    return concat(contents_->folders[s.folder], "/", contents_->names.data() + s.name);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    const std::string others =
        contents_->others == 0
            ? ""
            : concat("; ", contents_->others,
                     " files of other formats are left out, the first: ", contents_->first_other);
    return concat(size(), " image files in ", classes(), " classes below ", contents_->path, others,
                  contents_->passed_over.total() == 0
                      ? ""
                      : concat("; passed over: ", contents_->passed_over.describe()));
  }

 private:
  struct sample {
    std::uint32_t folder = 0;
    std::int32_t label = 0;
    std::size_t name = 0;  // offset in contents::names
  };
  struct contents {
    std::string path;
    std::vector<std::string> classes, folders;
    std::vector<sample> samples;
    std::string names;  // each ended by a zero byte
    std::size_t others = 0;
    std::string first_other;
    detail::images::reason_counts passed_over;
  };

  static void add_class(contents& all, std::int32_t label, const image_folder_options& options) {
    const std::string& name = all.classes[static_cast<std::size_t>(label)];
    for (std::string& folder : detail::images::folders_below(concat(all.path, "/", name))) {
      for (const std::string& file : detail::images::list_folder(folder).files) {
        if (detail::images::is_image_name(file)) {
          all.samples.push_back(
              {static_cast<std::uint32_t>(all.folders.size()), label, all.names.size()});
          all.names.append(file.c_str(), file.size() + 1);
        } else if (detail::images::is_other_image_name(file)) {
          if (all.others++ == 0) all.first_other = concat(folder, "/", file);
          if (options.other_formats == broken_image::refuse)
            throw error(concat(all.first_other,
                               ": this format is not decoded, and torchvision would list the file; "
                               "convert it to PNG or JPEG, remove it, or set .other_formats = "
                               "broken_image::skip"));
        } else {
          const std::size_t dot = file.rfind('.');
          all.passed_over.add(
              dot == file.npos ? "files without an ending" : concat("files ", file.substr(dot)),
              concat(folder, "/", file));
        }
      }
      all.folders.push_back(std::move(folder));
    }
  }

  std::shared_ptr<const contents> contents_;
};
static_assert(EncodedDataset<image_folder>);

}  // namespace cordee::inline CORDEE_ABI
