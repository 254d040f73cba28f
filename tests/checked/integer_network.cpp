// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of integer networks' kernels, as memory_access.cpp has that of the others:
// rows of integer_network.tsv. Images are whole sectors, and so small that a fifth of a kernel's
// bytes are the constants of its filters, which are read by accesses 16 bytes wide and 32 or 64
// apart. Of 16 channels a pixel, and a tap of a filter, is half a sector: a filter's K steps of 64
// bytes begin within one.
#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/checked/gemm_requests.hpp"
#include "tests/checked/measure.hpp"
#include "tests/infer/integer_network_on.hpp"
#include "tests/support/emulated.hpp"

using namespace support;
using namespace cordee::detail;
using checked::formula;

namespace {

constexpr resnet_options with_a{.image = {3, 16, 16}, .classes = 32, .zero_gamma = false};
constexpr extent stem_image{3, 32, 32};
/// Max pools of 32 bits and of bytes, 1x1 filters, a batch norm to bytes.
using small_stem = network<
    sequential<convolution<32, 3>, batch_norm<relu>, max_pool<2, 2, 0>,
               residual<sequential<convolution<32, 1>, batch_norm<relu>, convolution<64, 1>>,
                        batch_norm<identity>, projection<64, 1>>,
               convolution<32, 1>, relu, max_pool<3, 2, 1>, convolution<32, 3, 2>,
               global_average_pool, linear<32>>,
    int8, cpu, direct, stem_image, 32>;

/// The formulas of a program's launches, in their order.
class launches_of {
 public:
  launches_of(const infer::integer_program& program, std::span<const std::uint8_t> images)
      : program_(program), samples_(images.size() / program.image.size()) {
    std::set<std::pair<std::size_t, int>> entries;  // of the table of bytes
    for (std::size_t i = 0; i < images.size(); ++i)
      entries.emplace(i % program.image.size() / program.image.pixels(), images[i]);
    add(images.size() + entries.size(), lanes(program.image), 2 * images.size());
    for (const auto& step : program.steps)
      std::visit([&](const auto& layer) { add(step, layer); }, step.layer);
  }
  std::vector<formula> formulas;

 private:
  void add(std::size_t read, std::size_t written, std::size_t requested) {
    formulas.push_back({read, written, requested});
  }
  [[nodiscard]] std::size_t lanes(const extent& e) const {
    return samples_ * e.pixels() * channels(e);
  }
  static std::size_t channels(const extent& e) {
    return static_cast<std::size_t>(infer::padded_channels(e.channels));
  }
  [[nodiscard]] int bytes_of(int step) const {
    return step < 0 ? 1 : program_.steps[static_cast<std::size_t>(step)].bytes;
  }
  static std::size_t written(const infer::integer_step& step) {
    return static_cast<std::size_t>(step.bytes);
  }

  void add(const infer::integer_step& step, const infer::integer_convolution& c) {
    const std::size_t in = lanes(c.problem.in), out = lanes(step.out()),
                      added = step.residual < 0 ? 0 : 4 * out;
    if (bytes_of(step.input) == 4) add(4 * in, in, 4 * in);
    const auto g = ops::fprop_gemm<std::uint8_t>(c.problem, static_cast<int>(samples_));
    const auto filters = channels(step.out());
    const std::size_t constants = filters * 20,
                      weights = filters * static_cast<std::size_t>(g.depth());
    // Every warp of a tile's block holds its filters.
    add(in + weights + constants + added, written(step) * out,
        checked::gemm_requests<std::uint8_t>(g) + checked::tile_counts(g).pixels * 8 * constants +
            added);
  }
  void add(const infer::integer_step& step, const infer::integer_batch_norm& n) {
    const std::size_t out = lanes(n.in), added = step.residual < 0 ? 0 : 4 * out;
    const std::size_t in_warp = std::min<std::size_t>(channels(n.in), 128);  // of its 128 numbers
    add(4 * out + 16 * channels(n.in) + added, written(step) * out,
        4 * out + out / 128 * in_warp * 16 + added);
  }
  void add(const infer::integer_step& step, const ops::max_pool_problem& p) {
    const convolution_problem windows{p.in, p.in.channels, p.window, p.stride, p.padding};
    const auto g = ops::fprop_gemm<std::uint8_t>(windows, static_cast<int>(samples_));
    add(written(step) * lanes(p.in), written(step) * lanes(p.out()),
        written(step) * checked::taps_inside(g) * channels(p.in));
  }
  void add(const infer::integer_step&, const ops::subsample_problem& p) {
    const std::size_t read =
        4 * samples_ * p.out.pixels() * static_cast<std::size_t>(p.in.channels);
    add(read, 4 * lanes(p.out), read);
  }
  void add(const infer::integer_step&, const infer::mean_problem& m) {
    add(4 * lanes(m.in), 4 * samples_ * channels(m.in), 4 * lanes(m.in));
  }
  void add(const infer::integer_step&, const infer::integer_classifier& c) {
    const std::size_t x = 4 * samples_ * c.features, of_block = (2 * c.features + 16) * c.classes;
    add(x + of_block, 4 * samples_ * c.classes, x + samples_ * of_block);
  }

  const infer::integer_program& program_;
  std::size_t samples_;
};

void measure(checked::table& rows, const std::string& name, integer_network net) {
  constexpr std::size_t samples = 2;
  const device_fixture at{emulated{1}};
  const integer_network_on on_gpu(net, at.device, at.s);
  const std::vector<std::uint8_t> bytes = random_bytes(net, samples);
  const auto images = at.put(bytes);
  auto logits = at.put(std::vector<std::int32_t>(samples * net.classes()));
  checked::measure(rows, name, launches_of(net.program(), bytes).formulas,
                   [&] { on_gpu.run(images.span(), logits.span(), at.s); },
                   {.ratio = 1.34, .share = 5});
  CHECK(at.get(logits) == logits_of(net, samples));
}

}  // namespace

TEST_CASE("memory access of integer networks: near to ideal, and no more than recorded") {
  checked::table rows;
  measure(rows, "ResNet-8", random_integers<random_resnet<with_a>>(1));
  measure(rows, "ResNet-8, own batch norms", unfolded_integers<random_resnet<with_a>>(2));
  measure(rows, "stem", random_integers<small_stem>(3));
  measure(rows, "stem, own batch norms", unfolded_integers<small_stem>(4));
  checked::compare_with_table(rows, CORDEE_SOURCE_DIR "/tests/checked/integer_network.tsv");
}
