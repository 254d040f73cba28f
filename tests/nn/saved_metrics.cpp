// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/saved_metrics.hpp>

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

/// What saved_metrics reads of a model without device metrics.
struct on_host {
  using device = cpu;
  metrics of_pass{};

  [[nodiscard]] cpu get_device() const { return cpu{1}; }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return of_pass; }
};
/// The same of one with sums in its device's memory, and perhaps others on the host.
struct on_device : on_host {
  struct sums {
    double loss = 0;
  };
  sums of_kernels{};

  [[nodiscard]] span_on<const sums, cpu> device_metrics() const { return {&of_kernels, 1}; }
  [[nodiscard]] metrics metrics_of(const sums& s) const { return {.loss = s.loss}; }
};
struct on_both : on_device {
  metrics of_host{};
  [[nodiscard]] metrics host_metrics() const { return of_host; }
};
static_assert(!HasDeviceMetrics<on_host> && HasDeviceMetrics<on_device>);
static_assert(!HasHostMetrics<on_device> && HasHostMetrics<on_both>);

}  // namespace

TEST_CASE("saved_metrics: a later pass does not change them, wherever the model has them") {
  const cpu::stream s{};
  on_host host{.of_pass = {.loss = 1, .count = 2}};
  saved_metrics<on_host> of_host_alone(cpu{1});
  of_host_alone.save(host, s);
  host.of_pass.loss = 7;
  CHECK(of_host_alone.read(host, s).loss == 1);
  CHECK(of_host_alone.read(host, s).count == 2);

  on_device kernels;
  kernels.of_kernels.loss = 3;
  saved_metrics<on_device> of_kernels(cpu{1});
  of_kernels.save(kernels, s);
  kernels.of_kernels.loss = 7;
  CHECK(of_kernels.sums().data[0].loss == 3);
  CHECK(of_kernels.read(kernels, s).loss == 3);

  on_both both;
  both.of_kernels.loss = 4;
  both.of_host = metrics{.loss = 0.5, .count = 3};
  saved_metrics<on_both> of_both(cpu{1});
  of_both.save(both, s);
  both.of_kernels.loss = 7;
  both.of_host.loss = 7;
  CHECK(of_both.host().loss == 0.5);
  CHECK(of_both.read(both, s).loss == 4.5);
  CHECK(of_both.read(both, s).count == 3);
}
