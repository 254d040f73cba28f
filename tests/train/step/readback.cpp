// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/train/step/readback.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace support;

namespace {

using detail::train::readback, detail::train::step_status;

/// A model and planes in one: their results in the device's memory, set by work on a stream.
template <class D>
struct device_values {
  using device = D;
  D target;
  typename D::stream compute = target.make_stream();
  buffer<detail::ops::metric_sums, D> sums{target, 1};
  buffer<step_status, D> statuses{target, 1};

  explicit device_values(const D& d) : target(d) {}
  void set_loss(double loss) {
    const detail::ops::metric_sums host{{loss, 0, 0, 1}};
    target.copy(sums.span().data, &host, sizeof(host), compute);
  }
  void set_norm(double squared_global_norm) {
    step_status host;
    host.squared_global_norm = squared_global_norm;
    target.copy(statuses.span().data, &host, sizeof(host), compute);
  }
  [[nodiscard]] metrics metrics_of(const detail::ops::metric_sums& x) const {
    return checked_metrics(x, 10);
  }
  [[nodiscard]] span_on<const detail::ops::metric_sums, D> device_metrics() const {
    return sums.span();
  }
  [[nodiscard]] metrics read_metrics(typename D::stream) const {
    return metrics_of(sums.span().data[0]);
  }
  [[nodiscard]] const step_status* status() const { return statuses.span().data; }
  [[nodiscard]] step_status read_status(typename D::stream) const {
    return statuses.span().data[0];
  }
};

}  // namespace

TEST_CASE("readback: the metrics of all passes and the status at their end, on the CPU") {
  device_values<cpu> v(cpu(1));
  readback<device_values<cpu>> r{v.target};
  for (int step = 0; step < 2; ++step) {
    r.begin(2);
    for (const double loss : {3, 4}) {
      v.set_loss(loss);
      r.copy_metrics(v, v.compute);
    }
    v.set_norm(5);
    r.copy_status(v, v.compute);
    r.mark(v.compute);
    r.wait();
    CHECK(r.metrics_of(v).loss == 7);
    CHECK(r.metrics_of(v).count == 2);
    CHECK(r.status().squared_global_norm == 5);
  }
}

TEST_CASE("readback: one wait for all results; the work behind them is not awaited") {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    device_values<deferred> v{deferred(seed)};
    readback<device_values<deferred>> r{v.target};
    for (const std::size_t passes : {1u, 3u, 2u}) {
      const std::size_t waits = v.target.waits();
      r.begin(passes);
      for (std::size_t k = 0; k < passes; ++k) {
        v.set_loss(3);
        r.copy_metrics(v, v.compute);
      }
      v.set_norm(5);
      r.copy_status(v, v.compute);
      r.mark(v.compute);
      v.set_loss(-1);
      for (int k = 0; k < 20; ++k) v.set_norm(0);
      CHECK(v.target.waits() == waits);  // a copy to pageable memory would wait
      r.wait();
      if (seed == 0) CHECK(v.target.waits() == waits + 1);
      CHECK(r.metrics_of(v).loss == 3 * static_cast<double>(passes));
      CHECK(r.status().squared_global_norm == 5);
      if (seed == 0) CHECK(v.target.left() == 21);  // seed 0: work is done when it is waited for
      v.target.finish(v.compute);
    }
  }
}

TEST_CASE("readback: a label out of range is an error when the metrics are read") {
  device_values<deferred> v{deferred(0)};
  readback<device_values<deferred>> r{v.target};
  detail::ops::metric_sums bad{{0, 0, 0, 1}};
  bad.bad_sample = 1;
  bad.bad_label = 12;
  v.target.copy(v.sums.span().data, &bad, sizeof(bad), v.compute);
  r.begin(1);
  r.copy_metrics(v, v.compute);
  r.mark(v.compute);
  r.wait();
  CHECK_THROWS_AS((void)r.metrics_of(v), error);
}
