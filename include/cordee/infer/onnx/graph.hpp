// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A graph of ONNX operators, and its file: the messages of onnx.proto3 (github.com/onnx/onnx) that
// inference needs.
//
//   ModelProto      1 ir_version  2 producer_name  3 producer_version  7 graph  8 opset_import
//                   14 metadata_props
//   GraphProto      1 node  2 name  5 initializer  11 input  12 output
//   NodeProto       1 input  2 output  3 name  4 op_type  5 attribute
//   AttributeProto  1 name  2 f  3 i  4 s  8 ints  20 type
//   TensorProto     1 dims  2 data_type  8 name  9 raw_data
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/version.hpp>
#include <cordee/io/atomic_file.hpp>
#include <cordee/io/protobuf_message.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// TensorProto.DataType of a type of numbers.
template <class T>
inline constexpr int onnx_type = 0;
template <>
inline constexpr int onnx_type<float> = 1;
template <>
inline constexpr int onnx_type<std::uint8_t> = 2;
template <>
inline constexpr int onnx_type<std::int8_t> = 3;
template <>
inline constexpr int onnx_type<std::int16_t> = 5;
template <>
inline constexpr int onnx_type<std::int32_t> = 6;
template <>
inline constexpr int onnx_type<std::int64_t> = 7;
template <>
inline constexpr int onnx_type<std::uint32_t> = 12;
template <>
inline constexpr int onnx_type<std::uint64_t> = 13;

/// The attributes of a node.
class onnx_attributes {
 public:
  onnx_attributes& integer(std::string_view name, std::int64_t x) {
    return add(io::protobuf_message{}.bytes(1, name).integer(3, x).integer(20, 2));
  }
  onnx_attributes& number(std::string_view name, float x) {
    return add(io::protobuf_message{}.bytes(1, name).number(2, x).integer(20, 1));
  }
  onnx_attributes& text(std::string_view name, std::string_view x) {
    return add(io::protobuf_message{}.bytes(1, name).bytes(4, x).integer(20, 3));
  }
  onnx_attributes& integers(std::string_view name, std::initializer_list<std::int64_t> all) {
    io::protobuf_message m;
    m.bytes(1, name);
    for (const std::int64_t x : all) m.integer(8, x);
    return add(m.integer(20, 7));
  }
  [[nodiscard]] const std::vector<io::protobuf_message>& all() const { return all_; }

 private:
  onnx_attributes& add(const io::protobuf_message& m) {
    all_.push_back(m);
    return *this;
  }
  std::vector<io::protobuf_message> all_;
};

/// Those of a convolution or a pool with a square window.
inline onnx_attributes onnx_window(int side, int stride, int padding) {
  return onnx_attributes{}
      .integers("kernel_shape", {side, side})
      .integers("strides", {stride, stride})
      .integers("pads", {padding, padding, padding, padding});
}

/// Nodes and constant tensors, in the order in which they are added: inputs of a node first.
class onnx_graph {
 public:
  /// Opset 17 has every operator that is used; onnx 1.12, which has it, writes this ir_version.
  static constexpr int opset = 17, ir_version = 8;

  /// Adds a node with one output, and returns its name.
  std::string add(std::string_view op, std::string output,
                  std::initializer_list<std::string> inputs,
                  const onnx_attributes& attributes = {}) {
    io::protobuf_message node;
    for (const std::string& input : inputs) node.bytes(1, input);
    node.bytes(2, output).bytes(3, output).bytes(4, op);
    for (const io::protobuf_message& a : attributes.all()) node.message(5, a);
    graph_.message(1, node);
    return output;
  }
  /// Adds a node that makes numbers of type T of its input, and returns its name.
  template <class T>
  std::string cast(std::string output, const std::string& input) {
    return add("Cast", std::move(output), {input}, onnx_attributes{}.integer("to", onnx_type<T>));
  }
  /// Adds a constant tensor, and returns its name. No dimensions: a scalar.
  template <class T>
  std::string constant(std::string name, std::span<const std::size_t> shape,
                       std::span<const T> numbers) {
    static_assert(onnx_type<T> != 0, "this type of numbers has no ONNX type here");
    io::protobuf_message tensor;
    for (const std::size_t n : shape) tensor.integer(1, static_cast<std::int64_t>(n));
    tensor.integer(2, onnx_type<T>).bytes(8, name);
    tensor.bytes(9, {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
    graph_.message(5, tensor);
    return name;
  }
  template <class T>
  std::string scalar(std::string name, T number) {
    return constant<T>(std::move(name), {}, {&number, 1});
  }
  template <class T>
  std::string vector(std::string name, std::initializer_list<T> numbers) {
    const std::size_t size = numbers.size();
    return constant<T>(std::move(name), {&size, 1}, {numbers.begin(), size});
  }
  /// An input or output of the graph: numbers (batch, shape...), with any number of samples.
  template <class T = float>
  void add_input(std::string_view name, std::initializer_list<int> shape) {
    graph_.message(11, batch_of(name, onnx_type<T>, shape));
  }
  template <class T = float>
  void add_output(std::string_view name, std::initializer_list<int> shape) {
    graph_.message(12, batch_of(name, onnx_type<T>, shape));
  }
  /// A property of the model, which no node reads.
  void add_metadata(std::string_view key, std::string_view value) {
    metadata_.push_back(io::protobuf_message{}.bytes(1, key).bytes(2, value));
  }

  /// The bytes of the file.
  [[nodiscard]] std::string encoded() const {
    io::protobuf_message model, imported;
    imported.bytes(1, "").integer(2, opset);  // "": the standard operators
    model.integer(1, ir_version).bytes(2, "cordee").bytes(3, version);
    io::protobuf_message graph = graph_;
    model.message(7, graph.bytes(2, "network")).message(8, imported);
    for (const io::protobuf_message& m : metadata_) model.message(14, m);
    expects(model.encoded().size() < std::size_t{1} << 31,
            "an ONNX file of more than 2 GiB would need its weights in a second file");
    return model.encoded();
  }

 private:
  static io::protobuf_message batch_of(std::string_view name, int element,
                                       std::initializer_list<int> sides) {
    io::protobuf_message shape, tensor, type, value;
    shape.message(1, io::protobuf_message{}.bytes(2, "batch"));
    for (const int n : sides) shape.message(1, io::protobuf_message{}.integer(1, n));
    tensor.integer(1, element).message(2, shape);
    type.message(1, tensor);
    return value.bytes(1, name).message(2, type);
  }

  io::protobuf_message graph_;
  std::vector<io::protobuf_message> metadata_;
};

/// Writes the bytes of an ONNX file, which is complete or absent; makes the folders of the path.
inline void write_onnx_file(const std::string& path, const std::string& bytes) {
  io::make_folders(path);
  io::atomic_file file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
