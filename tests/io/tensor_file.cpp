// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <tuple>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/io/save_tensors.hpp>
#include <cordee/io/tensor_file.hpp>

#include "tests/io/tensors.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

namespace {

// A file with this header and `data` bytes of numbers.
std::string with_header(const folder& f, std::string header, std::size_t data) {
  file_bytes bytes(8);
  for (std::size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<std::uint8_t>(header.size() >> (8 * i));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + data);
  return f.put("x", bytes);
}

std::string refusal(const std::string& path) {
  return message_of<error>([&] { tensor_file::open(path); });
}

file_bytes small_file(const folder& f) {
  const std::vector<float> a{1, 2, 3, 4}, b{5};
  const std::vector<double> c{6, 7};
  save_tensors(f.file("good"),
               std::vector<tensor_view>{{"a", {2, 2}, a}, {"b", {}, b}, {"c", {2, 1}, c}},
               {{"format", "pt"}});
  return f.get("good");
}

}  // namespace

TEST_CASE("tensor_file: F32 is read as double and F64 as float") {
  const folder f;
  const std::vector<float> a{0.5f, 0.1f};
  const std::vector<double> d{0.5, 0.1};
  save_tensors(f.file("x"), std::vector<tensor_view>{{"a", {2}, a}, {"d", {2}, d}});
  const tensor_file file = tensor_file::open(f.file("x"));
  CHECK(read<double>(file, "a", 2) == std::vector<double>{0.5, static_cast<double>(0.1f)});
  CHECK(read<float>(file, "d", 2) == a);
}

TEST_CASE("tensor_file: a missing tensor or a wrong size is an error that names the tensor") {
  const folder f;
  small_file(f);
  const tensor_file file = tensor_file::open(f.file("good"));
  CHECK(file.names() == std::vector<std::string>{"c", "a", "b"});
  CHECK(file.find("z") == nullptr);
  CHECK(contains_all(message_of<error>([&] { read<float>(file, "z", 1); }),
                     {f.file("good"), "\"z\""}));
  CHECK(contains_all(message_of<error>([&] { read<float>(file, "a", 3); }),
                     {f.file("good"), "\"a\" has 4 numbers, 3 are needed"}));
}

TEST_CASE("tensor_file: a tensor of another type is listed, but reading it is an error") {
  const folder f;
  const auto path = with_header(f, R"({"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})", 8);
  const tensor_file file = tensor_file::open(path);
  CHECK(file.contains("n"));
  CHECK(
      contains_all(message_of<error>([&] { read<float>(file, "n", 1); }), {path, "\"n\"", "I64"}));
}

TEST_CASE("tensor_file: types that matter only where they are read, and null metadata") {
  // Elements and bytes, as the package safetensors 0.8.0 accepts them; the last is no type of it.
  const folder f;
  for (const auto& [dtype, elements, bytes] : {std::tuple{"F4", 2, 1},
                                               {"F6_E2M3", 4, 3},
                                               {"F6_E3M2", 8, 6},
                                               {"F8_E8M0", 5, 5},
                                               {"F8_E4M3FNUZ", 1, 1},
                                               {"F8_E5M2FNUZ", 1, 1},
                                               {"C64", 3, 24},
                                               {"F2", 7, 5}}) {
    const auto path = with_header(
        f,
        concat(R"({"__metadata__":null,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)",
               R"("n":{"dtype":")", dtype, R"(","shape":[)", elements, R"(],"data_offsets":[4,)",
               4 + bytes, "]}}"),
        static_cast<std::size_t>(4 + bytes));
    const tensor_file file = tensor_file::open(path);
    CHECK(file.metadata().empty());
    CHECK(read<float>(file, "a", 1) == std::vector<float>{0});
    CHECK(contains_all(message_of<error>([&] { read<float>(file, "n", 1); }), {path, "n", dtype}));
  }
}

TEST_CASE("tensor_file: tensors of F16 and BF16 are read as float and as double") {
  const folder f;
  // 1, -2, the smallest number of each type, infinity; more than are converted at once
  constexpr std::size_t many = 70'000;
  const std::vector<std::uint16_t> pattern[]{{0x3c00, 0xc000, 0x0001, 0x7c00},
                                             {0x3f80, 0xc000, 0x0001, 0x7f80}};
  const double least[]{std::ldexp(1.0, -24), std::ldexp(1.0, -133)};
  for (const std::size_t kind : {0u, 1u}) {
    std::vector<std::uint16_t> bits(many);
    for (std::size_t i = 0; i < many; ++i) bits[i] = pattern[kind][i % 4];
    tensor_view t{"t", {many}, std::span<const float>()};
    t.dtype = kind == 0 ? "F16" : "BF16";
    t.bytes = std::as_bytes(std::span(bits));
    save_tensors(f.file("x"), std::vector{t});
    const tensor_file file = tensor_file::open(f.file("x"));
    const double expected[]{1, -2, least[kind], HUGE_VAL};
    const std::vector<float> floats = read<float>(file, "t", many);
    const std::vector<double> doubles = read<double>(file, "t", many);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < many; ++i)
      wrong += static_cast<double>(floats[i]) == expected[i % 4] && doubles[i] == expected[i % 4]
                   ? 0
                   : 1;
    CHECK(wrong == 0);
    CHECK(contains_all(message_of<error>([&] { read<float>(file, "t", many / 2); }),
                       {"\"t\" has 70000 numbers, 35000 are needed"}));
  }
}

TEST_CASE(
    "tensor_file: every truncation and every added byte is an error that names file and offset") {
  const folder f;
  const file_bytes good = small_file(f);
  for (std::size_t n = 0; n < good.size(); ++n) {
    CAPTURE(n);
    const auto path = f.put("x", file_bytes(good.begin(), good.begin() + static_cast<long>(n)));
    CHECK(contains_all(refusal(path), {path, "at offset"}));
  }
  file_bytes longer = good;
  longer.push_back(0);
  CHECK(contains_all(refusal(f.put("x", longer)), {"belong to no tensor", "at offset"}));
}

TEST_CASE("tensor_file: a flipped bit in the header is an error, or the file is still valid") {
  // There is no checksum, so that a changed bit of a name or of the metadata is not detected. Then
  // every tensor must still lie inside the file.
  const folder f;
  const file_bytes good = small_file(f);
  const std::size_t header_end = good.size() - 36;
  std::size_t refused = 0, accepted = 0;
  for (std::size_t at = 0; at < header_end; ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      CAPTURE(at);
      CAPTURE(bit);
      file_bytes bad = good;
      bad[at] = static_cast<std::uint8_t>(bad[at] ^ (1u << bit));
      const auto path = f.put("x", bad);
      try {
        const tensor_file file = tensor_file::open(path);
        std::size_t total = 0;
        for (const tensor_entry& e : file.entries()) {
          CHECK(e.offset + e.size <= bad.size());
          total += e.size;
        }
        CHECK(total == 36);
        ++accepted;
      } catch (const error& e) {
        CHECK(contains_all(e.what(), {path, "at offset"}));
        ++refused;
      }
    }
  CHECK(refused > accepted);
}

TEST_CASE("tensor_file: of a file of 4 TiB only what is asked for is read") {
  const folder f;
  constexpr std::uintmax_t size = std::uintmax_t{1} << 42;
  const auto sparse = [&](const std::string& header) {
    const auto path = with_header(f, header, 0);
    std::filesystem::resize_file(path, 8 + header.size() + 16 + size);
    return path;
  };
  const tensor_file file = tensor_file::open(sparse(
      concat(R"({"small":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"big":{"dtype":"U8",)",
             R"("shape":[)", size, R"(],"data_offsets":[16,)", size + 16, "]}}")));
  CHECK(read<float>(file, "small", 4) == std::vector<float>(4));
  CHECK(read<double>(file, "small", 4) == std::vector<double>(4));
  CHECK(contains_all(message_of<error>([&] { read<float>(file, "big", 4); }), {"U8"}));

  CHECK(contains_all(refusal(sparse("")), {"expected '{'"}));
  const auto path = f.put("x", {0, 0, 0, 0, 1, 0, 0, 0});  // a header of 4 GiB
  std::filesystem::resize_file(path, size);
  CHECK(contains_all(refusal(path), {"length 4294967296, the format permits 100000000"}));
}

TEST_CASE("tensor_file: more numbers than one read converts are read in their order") {
  const folder f;
  const std::vector<float> x = numbers((1 << 17) + 3, 5);
  save_tensors(f.file("x"), std::vector<tensor_view>{{"x", {x.size()}, x}});
  const tensor_file file = tensor_file::open(f.file("x"));
  const std::vector<double> y = read<double>(file, "x", x.size());
  CHECK(std::equal(y.begin(), y.end(), x.begin(), x.end()));
  CHECK(read<float>(file, "x", x.size()) == x);
}

TEST_CASE("tensor_file: random damage leads to an error or a valid file") {
  const folder f;
  const file_bytes good = small_file(f);
  random_sequence random(7, purpose::test, 0, 0);
  for (int round = 0; round < 2000; ++round) {
    file_bytes bad = good;
    const auto size = static_cast<std::uint32_t>(bad.size());
    for (std::uint32_t k = 1 + random.below(6); k > 0; --k) {
      const char* tokens = "{}[]\",:\\0192u \xff";
      bad[random.below(size)] = static_cast<std::uint8_t>(tokens[random.below(16)]);
    }
    const auto path = f.put("x", bad);
    try {
      const tensor_file file = tensor_file::open(path);
      for (const tensor_entry& e : file.entries())
        if (e.dtype == "F32") CHECK(read<float>(file, e.name, e.size / 4).size() == e.size / 4);
    } catch (const error& e) {
      CHECK(contains_all(e.what(), {path}));
    }
  }
}

TEST_CASE(
    "tensor_file: a file of torch.save is recognized, and the error tells how to convert it") {
  const folder here;
  const file_bytes zip{'P', 'K', 3, 4, 0, 0, 8, 8, 0, 0},
      pickle{0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46};
  for (const file_bytes& bytes : {zip, pickle}) {
    CHECK(contains_all(refusal(here.put("net.pth", bytes)),
                       {"net.pth: a file of torch.save", "s.save_file(torch.load("}));
  }
}

TEST_CASE("tensor_file: each kind of invalid header is an error that names it") {
  const folder f;
  const auto check = [&](const std::string& header, std::size_t data, const std::string& part) {
    const auto path = with_header(f, header, data);
    const std::string text = refusal(path);
    CAPTURE(header);
    CAPTURE(text);
    CHECK(contains_all(text, {path, part, "at offset"}));
  };
  const auto entry = [](const char* name, const char* dtype, const char* shape, const char* ends) {
    return concat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[", shape,
                  "],\"data_offsets\":[", ends, "]}");
  };
  check("{" + entry("a", "F32", "1", "0,4") + "," + entry("a", "F32", "1", "4,8") + "}", 8,
        "twice");
  check("{" + entry("a", "F32", "1", "0,4") + "," + entry("b", "F32", "1", "0,4") + "}", 4,
        "inside another");
  check("{" + entry("a", "F32", "1", "0,4") + "," + entry("b", "F32", "1", "8,12") + "}", 12,
        "gap");
  check("{" + entry("a", "F32", "1", "4,8") + "}", 8, "gap");
  check("{" + entry("a", "F32", "1", "0,4") + "}", 8, "belong to no tensor");
  check("{" + entry("a", "F32", "2", "0,4") + "}", 4, "shape");
  check("{" + entry("a", "F32", "4611686018427387904,4", "0,4") + "}", 4, "shape");
  check("{" + entry("a", "F32", "1", "4,0") + "}", 4, "data_offsets");
  check("{" + entry("a", "F32", "1", "0,8") + "}", 4, "data_offsets");
  check("{" + entry("a", "F32", "1", "0,4,8") + "}", 8, "two numbers");
  check("{" + entry("a", "", "1", "0,4") + "}", 4, "empty dtype");
  for (const auto& [dtype, shape, bytes] : {std::tuple{"F4", "1", 1},
                                            {"F4", "3", 2},
                                            {"F4", "2", 2},
                                            {"F6_E2M3", "2", 2},
                                            {"F6_E3M2", "4", 4},
                                            {"C64", "1", 4},
                                            {"F8_E8M0", "2", 1},
                                            {"F4", "4611686018427387904", 0}})
    check("{" + entry("a", dtype, shape, concat("0,", bytes).c_str()) + "}",
          static_cast<std::size_t>(bytes), "shape");
  check("{\"__metadata__\":nul}", 0, "expected");
  check("{\"__metadata__\":null,\"__metadata__\":null}", 0, "twice");
  check("{" + entry("a", "F32", "-1", "0,4") + "}", 4, "non-negative integer");
  check("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "lacks");
  check("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
        "unexpected");
  check("{\"a\":{\"kind\":\"F32\"}}", 4, "unexpected");
  check("{\"__metadata__\":{\"k\":1}}", 0, "expected");
  check("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "twice");
  check("{} x", 0, "after the end");
  check("", 0, "expected '{'");
  check(std::string(1000, '['), 0, "expected '{'");
}
