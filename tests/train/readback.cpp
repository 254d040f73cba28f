// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/train/readback.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace support;

namespace {

using detail::train::readback, detail::train::step_status;

/// A model and planes in one: two values in the device's memory, set by work on a stream.
template <class D>
struct device_values {
  D device;
  typename D::stream compute = device.make_stream();
  buffer<double, D> values{device, 2};

  explicit device_values(const D& d) : device(d) {}
  void set(double loss, double squared_global_norm) {
    const std::array host{loss, squared_global_norm};
    device.copy(values.span().data, host.data(), sizeof(host), compute);
  }
  [[nodiscard]] metrics read_metrics(typename D::stream s) {
    return {copy_to_host<double, D>(device, values.span(), s)[0], 0, 0, 1};
  }
  [[nodiscard]] detail::train::step_status read_status(typename D::stream s) const {
    detail::train::step_status status;
    status.squared_global_norm = copy_to_host<double, D>(device, values.span(), s)[1];
    return status;
  }
};

}  // namespace

TEST_CASE("readback: results are those that precede the event, on the CPU") {
  device_values<cpu> v(cpu(1));
  const readback<cpu> r{v.device};
  v.set(3, 5);
  CHECK(r.metrics_at(v.device.record(v.compute), v).loss == 3);
  CHECK(r.status_at(v.device.record(v.compute), v).squared_global_norm == 5);
}

TEST_CASE("readback: the work before the event is awaited, the work behind it is not") {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    device_values<deferred> v{deferred(seed)};
    const readback<deferred> r{v.device};
    v.set(3, 5);
    const auto set = v.device.record(v.compute);
    buffer<double, deferred> other(v.device, 1);
    for (int k = 0; k < 20; ++k) v.device.clear(other.span().data, sizeof(double), v.compute);
    CHECK(r.metrics_at(set, v).loss == 3);
    CHECK(r.status_at(set, v).squared_global_norm == 5);
    if (seed == 0) CHECK(v.device.left() == 20);  // seed 0: work is done when it is waited for
  }
}
