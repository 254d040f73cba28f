// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A small reader of ONNX files for the tests of this folder, which shares no code with the writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_reader {

/// The fields of a message: integers, and bytes, each in the order of the file.
struct message {
  std::map<int, std::vector<std::int64_t>> integers;
  std::map<int, std::vector<std::string>> bytes;

  explicit message(std::string_view in) {
    const auto varint = [&in] {
      std::uint64_t x = 0;
      for (int k = 0;; ++k) {
        if (in.empty() || k == 10) throw std::runtime_error("a varint does not end");
        const auto b = static_cast<unsigned char>(in[0]);
        in.remove_prefix(1);
        x += (b & 127ull) << (7 * k);
        if (b < 128) return x;
      }
    };
    while (!in.empty()) {
      const std::uint64_t key = varint();
      const int field = static_cast<int>(key / 8);
      if (key % 8 == 0) {
        integers[field].push_back(static_cast<std::int64_t>(varint()));
      } else if (key % 8 == 2 || key % 8 == 5) {
        const std::uint64_t size = key % 8 == 5 ? 4 : varint();
        if (size > in.size()) throw std::runtime_error("a field is cut off");
        bytes[field].emplace_back(in.substr(0, size));
        in.remove_prefix(size);
      } else {
        throw std::runtime_error("a field of an unknown type");
      }
    }
  }
  std::int64_t integer(int field) const { return integers.at(field).at(0); }
  const std::string& text(int field) const { return bytes.at(field).at(0); }
  std::vector<message> messages(int field) const {
    std::vector<message> all;
    if (bytes.contains(field))
      for (const std::string& m : bytes.at(field)) all.emplace_back(m);
    return all;
  }
};

template <class T>
std::vector<T> numbers(const std::string& raw) {
  std::vector<T> out(raw.size() / sizeof(T));
  std::memcpy(out.data(), raw.data(), out.size() * sizeof(T));
  return out;
}

struct tensor {
  std::vector<std::int64_t> shape;
  std::int64_t type = 0;
  std::string raw;
};

struct node {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::vector<std::int64_t>> integers;  // of attributes
  std::map<std::string, float> floats;
  std::map<std::string, std::string> texts;
};

struct input {
  std::string name;
  std::int64_t type = 0;
  std::vector<std::string> shape;  // a side, or its symbol
};

struct model {
  std::int64_t ir_version = 0, opset = 0;
  std::vector<node> nodes;
  std::map<std::string, tensor> constants;
  std::vector<input> inputs, outputs;
  std::map<std::string, std::string> metadata;

  explicit model(std::string_view file) {
    const message m(file);
    ir_version = m.integer(1);
    opset = message(m.text(8)).integer(2);
    const message graph(m.text(7));
    for (const message& n : graph.messages(1)) {
      node out{n.text(4), n.text(3), {}, n.bytes.at(2), {}, {}, {}};
      if (n.bytes.contains(1)) out.inputs = n.bytes.at(1);
      for (const message& a : n.messages(5)) {
        const std::int64_t type = a.integer(20);
        if (type == 1)
          out.floats[a.text(1)] = numbers<float>(a.text(2)).at(0);
        else if (type == 2)
          out.integers[a.text(1)] = a.integers.at(3);
        else if (type == 3)
          out.texts[a.text(1)] = a.text(4);
        else if (type == 7)
          out.integers[a.text(1)] = a.integers.at(8);
        else
          throw std::runtime_error("an attribute of an unknown type");
      }
      nodes.push_back(out);
    }
    for (const message& t : graph.messages(5)) {
      tensor out{{}, t.integer(2), t.text(9)};
      if (t.integers.contains(1)) out.shape = t.integers.at(1);
      if (!constants.emplace(t.text(8), out).second)
        throw std::runtime_error("two constants have one name: " + t.text(8));
    }
    for (const message& p : m.messages(14)) metadata[p.text(1)] = p.text(2);
    for (const message& v : graph.messages(11)) inputs.push_back(input_of(v));
    for (const message& v : graph.messages(12)) outputs.push_back(input_of(v));
  }
  std::vector<std::string> ops() const {
    std::vector<std::string> all;
    for (const node& n : nodes) all.push_back(n.op);
    return all;
  }
  const node& at(std::string_view name) const {
    for (const node& n : nodes)
      if (n.name == name) return n;
    throw std::runtime_error("no node " + std::string(name));
  }

 private:
  static input input_of(const message& v) {
    const message tensor_type(message(v.text(2)).text(1));
    input out{v.text(1), tensor_type.integer(1), {}};
    for (const message& d : message(tensor_type.text(2)).messages(1))
      out.shape.push_back(d.bytes.contains(2) ? d.text(2) : std::to_string(d.integer(1)));
    return out;
  }
};

}  // namespace onnx_reader
