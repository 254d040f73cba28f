// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/testing/swap_laws.hpp>

using namespace cordee;

namespace {

enum class fault { none, loses_weights, keeps_packed, allows_two, names_one, forgets_adopted };

/// A model of three weights, whose output is their sum by packed weights, in memory of the group.
struct toy {
  using device = cpu;
  using Real = float;
  struct memory {
    std::string resident;
    std::vector<float> weights, packed;
  };

  memory& group;
  std::string own_name;
  std::vector<float> kept;
  fault planted;
  std::string const& name() const { return own_name; }

  struct resident_toy {
    using device = cpu;
    using Real = float;
    toy& of;
    explicit resident_toy(toy& t) : of(t) {
      memory& m = of.group;
      if (!m.resident.empty() && of.planted != fault::allows_two)
        throw usage_error("\"" + m.resident + "\" is resident" +
                          (of.planted == fault::names_one ? "" : ", \"" + of.own_name + "\" not"));
      m.resident = of.own_name;
      if (of.planted != fault::loses_weights || m.weights.empty()) m.weights = of.kept;
      if (of.planted != fault::keeps_packed || m.packed.empty()) m.packed = m.weights;
    }
    resident_toy(const resident_toy&) = delete;
    ~resident_toy() { of.group.resident.clear(); }
    [[nodiscard]] resident_toy& model() { return *this; }
    [[nodiscard]] static cpu get_device() { return cpu(1); }
    [[nodiscard]] static cpu::stream compute() { return {}; }
    [[nodiscard]] span_on<float, cpu> weights() {
      return {of.group.weights.data(), of.group.weights.size()};
    }
    void adopt_weights() {
      of.group.packed = of.group.weights;
      if (of.planted != fault::forgets_adopted) of.kept = of.group.weights;
    }
  };
  [[nodiscard]] resident_toy make_resident(cpu::stream) { return resident_toy(*this); }
};

std::string law_with(fault planted) {
  toy::memory memory;
  toy a{memory, "a", {1, 2, 3}, planted}, b{memory, "b", {4, 5, 6}, planted};
  return swap_laws(a, b, {}, [](auto& resident) {
    return std::vector<double>{resident.of.group.packed[0] + resident.of.group.packed[2]};
  });
}

}  // namespace

TEST_CASE("swap_laws: each planted fault is found") {
  CHECK(law_with(fault::none) == "");
  CHECK(law_with(fault::loses_weights).find("the weights of \"b\" have changed") == 0);
  CHECK(law_with(fault::keeps_packed).find("the outputs of \"b\" have changed") == 0);
  CHECK(law_with(fault::allows_two) == "\"a\" and \"b\" were resident at once");
  CHECK(law_with(fault::names_one).find("the refusal does not name \"b\"") == 0);
  CHECK(law_with(fault::forgets_adopted) ==
        "the weights of \"a\" have changed after they were adopted");
}
