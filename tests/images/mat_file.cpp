// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#if defined(CORDEE_HAS_ZLIB)

#include <doctest/doctest.h>

#include <cordee/images/mat_file.hpp>

#include "tests/images/mat.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;
using detail::images::mat_array;
using detail::images::mat_file;

namespace {

struct array {
  std::vector<std::uint32_t> dimensions;
  std::uint32_t type = 0;
  file_bytes bytes;
};

array find(const std::string& path, std::string_view name) {
  array found;
  mat_file(path).with_array(name, [&](mat_array& a) {
    found = {a.dimensions, a.type, {}};
    found.bytes = a.read();
  });
  return found;
}
std::string refusal(const file_bytes& file, std::string_view name = "a") {
  const folder f;
  const std::string path = f.put("x.mat", file);
  const std::string message = message_of<error>([&] { find(path, name); });
  if (!message.empty()) CHECK(contains_all(message, {"x.mat"}));
  return message;
}

const file_bytes six{1, 2, 3, 4, 5, 6};
const file_bytes small = mat_compressed(mat_matrix("a", {3, 1}, 2, {7, 8, 9})),
                 large = mat_compressed(mat_matrix("a_long_name", {2, 3}, 2, six));

}  // namespace

TEST_CASE("mat_file: arrays by name, with short parts and long ones") {
  const folder f;
  const std::string path = f.put("x.mat", mat_file_of({small, large}));
  CHECK(find(path, "a").bytes == file_bytes{7, 8, 9});
  CHECK(find(path, "a").dimensions == std::vector<std::uint32_t>{3, 1});
  CHECK(find(path, "a_long_name").bytes == six);
  CHECK(find(path, "a_long_name").type == mat_array::uint8);
  CHECK(contains_all(refusal(mat_file_of({small}), "b"), {"no variable b"}));
  const file_bytes many(200000, 3);  // more than a block of input or output
  f.put("x.mat", mat_file_of({mat_compressed(mat_matrix("m", {200000, 1}, 2, many))}));
  CHECK(find(path, "m").bytes == many);
}

TEST_CASE("mat_file: arrays that are not compressed, as SciPy's savemat writes them by default") {
  const folder f;
  const file_bytes a = mat_matrix("a", {3, 1}, 2, {7, 8, 9}), b = mat_matrix("b", {2, 3}, 2, six);
  const std::string path = f.put("x.mat", mat_file_of({a, small, b}));
  CHECK(find(path, "a").bytes == file_bytes{7, 8, 9});
  CHECK(find(path, "b").bytes == six);
  CHECK(find(path, "b").dimensions == std::vector<std::uint32_t>{2, 3});
  const file_bytes file = mat_file_of({b});
  for (std::size_t n = 129; n < file.size(); ++n)
    CHECK(contains_all(
        refusal(file_bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)), "b"),
        {"it is truncated"}));
  // Numbers of more or fewer bytes than the element has.
  for (const int bytes : {0, 9, 16, 255}) {
    file_bytes other = b;
    other[other.size() - 12] = static_cast<std::uint8_t>(bytes);
    CHECK(refusal(mat_file_of({other}), "b") != "");
    for (std::size_t k = 9; k < 12; ++k) other[other.size() - k] = 0xff;
    CHECK(contains_all(refusal(mat_file_of({other}), "b"), {"array b of 42949"}));
  }
}

TEST_CASE("mat_file: what is no such file is refused") {
  CHECK(contains_all(refusal({}), {"no MATLAB 5 file"}));
  file_bytes file = mat_file_of({small});
  std::swap(file[126], file[127]);
  CHECK(contains_all(refusal(file), {"big-endian"}));
  CHECK(contains_all(refusal(mat_file_of({mat_part(2, six)})), {"a variable of no array"}));
  CHECK(contains_all(refusal(mat_file_of(std::vector<file_bytes>(1001, small))),
                     {"too many variables"}));
  CHECK(contains_all(refusal(mat_file_of({mat_compressed(mat_part(2, six))})),
                     {"a variable of no array"}));
}

TEST_CASE("mat_file: a file that is cut anywhere is refused") {
  const file_bytes file = mat_file_of({large});
  for (std::size_t n = 0; n < file.size(); ++n) {
    CAPTURE(n);
    const char* const reason = n < 128    ? "no MATLAB 5 file"
                               : n == 128 ? "no variable a_long_name"
                                          : "it is truncated";
    const file_bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK(contains_all(refusal(cut, "a_long_name"), {reason}));
  }
  // The stream alone is cut, so the sizes fit.
  file_bytes stream = large;
  for (std::size_t n = 1; n + 8 < large.size(); ++n) {
    stream.pop_back();
    file_bytes element = mat_words({15, static_cast<std::uint32_t>(stream.size() - 8)});
    element.insert(element.end(), stream.begin() + 8, stream.end());
    CHECK(refusal(mat_file_of({element}), "a_long_name") != "");
  }
}

TEST_CASE("mat_file: every flipped bit is noticed, but for those of the text") {
  const folder f;
  const file_bytes file = mat_file_of({large});
  for (std::size_t at = 124; at < file.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(at);
      file_bytes damaged = file;
      damaged[at] ^= static_cast<std::uint8_t>(1 << bit);
      const std::string path = f.put("x.mat", damaged);
      bool noticed = true;
      try {
        noticed = find(path, "a_long_name").bytes == six;  // zlib ignores some bits
      } catch (const error&) {
      }
      CHECK(noticed);
    }
}

TEST_CASE("mat_file: sizes are checked before memory, and the head is bounded") {
  file_bytes named = mat_matrix("a", {3, 1}, 2, {7, 8, 9});
  named[8 + 16 + 16 + 2] = 5;  // the name, in a tag that has room for four bytes
  CHECK(contains_all(refusal(mat_file_of({mat_compressed(named)})), {"has a short tag"}));
  // The numbers are declared as 4 GB, in a stream of less than 100 bytes.
  file_bytes element = mat_matrix("a", {3, 1}, 2, file_bytes(16));
  element[element.size() - 20] = element[element.size() - 19] = 0xff;
  element[element.size() - 18] = element[element.size() - 17] = 0xff;
  CHECK(contains_all(refusal(mat_file_of({mat_compressed(element)})),
                     {"array a of 4294967295 bytes in "}));
  CHECK(contains_all(
      refusal(mat_file_of({mat_compressed(mat_matrix(std::string(65, 'a'), {1}, 2, six))})),
      {"head is damaged"}));
  CHECK(contains_all(refusal(mat_file_of({mat_compressed(
                         mat_matrix("a", std::vector<std::uint32_t>(9, 1), 2, six))})),
                     {"head is damaged"}));
  // A stream that goes on behind the numbers.
  file_bytes longer = mat_matrix("a", {6, 1}, 2, six);
  longer.resize(longer.size() + 100000);
  CHECK(contains_all(refusal(mat_file_of({mat_compressed(longer)})), {"array a is damaged"}));
}

#else

#include "tests/support/skip.hpp"

TEST_CASE("mat_file") { support::skip("built without zlib"); }

#endif
