// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is the file of test images of CIFAR-10 and of CIFAR-100: either is refused with an
// error, or every example can be read.
#include <array>
#include <filesystem>

#include <cordee/data/cifar.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;

namespace {

// A folder in which both names lead to one file in memory; removed when the program ends.
class test_images {
 public:
  test_images() {
    std::string name = (std::filesystem::temp_directory_path() / "cordee-fuzz-XXXXXX").string();
    fuzz::require(::mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
    folder_ = name;
    for (const char* file : {"test_batch.bin", "test.bin"})
      std::filesystem::create_symlink(file_.path(), folder_ / file);
  }
  ~test_images() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string folder() const { return folder_.string(); }
  [[nodiscard]] const fuzz::memory_file& file() const { return file_; }

 private:
  fuzz::memory_file file_;
  std::filesystem::path folder_;
};

template <class Set>
void read_all(const std::string& folder) {
  try {
    const Set set(folder, Set::test);
    std::array<std::uint8_t, 3072> pixels{};
    for (std::size_t i = 0; i < set.size(); ++i) {
      const int label = set.read(i, pixels);
      fuzz::require(label >= 0 && label < set.classes(), "a label is one of the classes");
    }
  } catch (const error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test_images input;
  input.file().set({data, size});
  read_all<cifar10>(input.folder());
  read_all<cifar100>(input.folder());
  return 0;
}
