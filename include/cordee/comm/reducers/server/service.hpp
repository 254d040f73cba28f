// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The thread of rank 0 that holds a parameter server's weights, and the messages of its clients.
//
//   request_context    a request, and the numbers that belong to it
//   reply_context      a byte when the server has started, then the current weights
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/server/staleness_clock.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/external_memory.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct request {
  enum kind : std::uint32_t { join, push, leave, server_abort } what;
  std::uint32_t width;  // bytes of a number
  std::uint64_t bytes;  // that follow
};

/// Sends a request and its numbers to rank 0; blocks until the server has received both.
template <class Communicator>
void send_request(const Communicator& comm, const request& r,
                  span_on<const std::byte, cpu> numbers) {
  const std::array out{send_op<cpu>{0, {reinterpret_cast<const std::byte*>(&r), sizeof r}},
                       send_op<cpu>{0, numbers}};
  comm.duplicate(request_context)
      .exchange(std::span<const send_op<cpu>>(out).first(r.bytes == 0 ? 1 : 2),
                std::span<const recv_op<cpu>>{}, cpu::stream{});
}
template <class Communicator>
void receive(const Communicator& comm, int peer, span_on<std::byte, cpu> target) {
  const recv_op<cpu> in{peer, target};
  comm.exchange(std::span<const send_op<cpu>>{}, std::span<const recv_op<cpu>>(&in, 1),
                cpu::stream{});
}

/// The weights, and the pushes that are added to them.
template <class Real>
class parameter_store {
 public:
  explicit parameter_store(std::size_t n) : weights_(n), pushed_(n) {}

  [[nodiscard]] std::vector<Real>& weights() { return weights_; }
  /// The buffer into which a push is received.
  [[nodiscard]] std::vector<Real>& pushed() { return pushed_; }

  /// Effects: adds `factor` times the push to the mean of `batch` pushes; if `completes`, adds that
  /// mean to the weights.
  void accumulate(double factor, int batch, bool completes) {
    const auto c = static_cast<Real>(factor);
    std::vector<Real>& sum = batch == 1 ? weights_ : sum_;
    sum.resize(pushed_.size());
    for (std::size_t i = 0; i < pushed_.size(); ++i) sum[i] += c * pushed_[i];
    if (batch == 1 || !completes) return;
    const auto count = static_cast<Real>(batch);
    for (std::size_t i = 0; i < pushed_.size(); ++i)
      weights_[i] += std::exchange(sum_[i], Real{0}) / count;
  }

  /// The weights, then the sum of the pushes of the next update if there are any.
  [[nodiscard, gnu::cold]] std::vector<double> numbers() const {
    std::vector<double> all(weights_.begin(), weights_.end());
    all.insert(all.end(), sum_.begin(), sum_.end());
    return all;
  }
  /// Throws error for numbers of another model.
  [[gnu::cold]] void restore(std::span<const double> numbers) {
    const std::size_t n = weights_.size();
    if (numbers.size() != n && numbers.size() != 2 * n)
      throw error(concat("server: ", numbers.size(), " numbers do not fit a model of ", n,
                         ": continue with the same model"));
    sum_.resize(numbers.size() - n);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      (i < n ? weights_[i] : sum_[i - n]) = static_cast<Real>(numbers[i]);
  }

 private:
  std::vector<Real> weights_, pushed_, sum_;
};

/// A clock that the serving thread advances and other threads read.
struct shared_staleness_clock {
  core::mutex mutex;
  staleness_clock clock;
};

template <class Communicator, class Real>
class parameter_service {
 public:
  parameter_service(const Communicator& comm, shared_staleness_clock& clock, std::size_t numbers)
      : comm_(comm), clock_(clock), store_(numbers), thread_(start()) {}
  parameter_service(const parameter_service&) = delete;
  parameter_service& operator=(const parameter_service&) = delete;
  ~parameter_service() { thread_.join(); }

  /// Both require that no rank is between a request and its reply.
  [[nodiscard, gnu::cold]] reducer_state state() {
    return with_clock([this](staleness_clock& c) {
      return reducer_state{store_.numbers(), c.counters()};
    });
  }
  [[gnu::cold]] void restore(const reducer_state& state) {
    with_clock([&](staleness_clock& c) {
      store_.restore(state.numbers);
      c.restore(state.counters);
    });
  }

 private:
  auto start() {
    if constexpr (StartsTasks<Communicator>)
      return comm_.start_task([this] { run(); });
    else
      return detail::core::start_thread<&parameter_service::run>(*this);
  }
  void run() {
    const auto description = [this] {
      return with_clock([](staleness_clock& c) { return c.describe(); });
    };
    const auto completed = [this] {
      return with_clock([](staleness_clock& c) { return c.completed(); });
    };
    const error_context context(description, completed);
    try {
      while (serve_request()) {
      }
    } catch (const std::exception& e) {
      abort(comm_, e.what());
    }
  }

  // Returns whether there will be another request.
  bool serve_request() {
    const Communicator requests = comm_.duplicate(request_context);
    const int peer = requests.probe_any(with_clock([](staleness_clock& c) { return c.due(); }));
    request r{};
    receive(requests, peer, {reinterpret_cast<std::byte*>(&r), sizeof r});
    if (r.what == request::server_abort) return false;
    std::vector<Real>& target = r.what == request::join ? store_.weights() : store_.pushed();
    if (r.bytes > 0) {
      if (r.width != sizeof(Real) || r.bytes != target.size() * sizeof(Real))
        throw error(concat("server: rank ", peer, " pushes ", r.bytes, " bytes in numbers of ",
                           r.width, ", rank 0 has ", target.size(), " numbers of ", sizeof(Real),
                           ": the ranks have different models"));
      receive(requests, peer, bytes(span_on<Real, cpu>{target.data(), target.size()}));
    }
    with_clock([&](staleness_clock& c) {
      if (r.what == request::join) return c.join(peer);
      if (r.what == request::leave) return c.leave(peer);
      const double factor = c.push(peer);
      store_.accumulate(factor, c.batch(), c.completes_update());
    });
    for (int rank; (rank = with_clock([](staleness_clock& c) { return c.pop_ready(); })) >= 0;)
      send_weights(rank);
    return !with_clock([](staleness_clock& c) { return c.all_left(); });
  }

  void send_weights(int rank) {
    const auto& w = store_.weights();
    const send_op<cpu> out{rank, bytes(span_on<const Real, cpu>{w.data(), w.size()})};
    comm_.duplicate(reply_context)
        .exchange(std::span<const send_op<cpu>>(&out, 1), std::span<const recv_op<cpu>>{},
                  cpu::stream{});
  }

  template <class F>
  auto with_clock(const F& f) {
    const core::scoped_lock lock(clock_.mutex);
    return f(clock_.clock);
  }

  const Communicator comm_;
  shared_staleness_clock& clock_;
  parameter_store<Real> store_;
  typename background<Communicator>::type thread_;  // last: it uses the other members
};

/// One rank's connection to the server, from its first request until the last copy of its reducer
/// is destroyed. Its destructor leaves the server, and on rank 0 joins the serving thread, which
/// ends when all ranks have left. If an exception is unwinding, ranks but 0 send nothing: the
/// communicator reports the cause.
template <class Communicator>
class server_client {
 public:
  [[gnu::cold]] server_client(const Communicator& comm, const asynchronous& options)
      : comm_(comm), clock_{{}, staleness_clock(comm.size(), options)} {}
  server_client(const server_client&) = delete;
  server_client& operator=(const server_client&) = delete;
  [[gnu::cold]] ~server_client() {
    if (!has_joined_) return;
    const bool unwinds = std::uncaught_exceptions() > exceptions_;
    if (unwinds && comm_.rank() != 0) return;
    try {
      send_request(comm_, {unwinds ? request::server_abort : request::leave, 0, 0}, {});
    } catch (const std::exception&) {  // the run has failed already
    }
  }

  /// Effects: sends `numbers` (a join of a rank other than 0 sends none), then receives the
  /// server's weights into them.
  template <class Real>
  void transact(request::kind kind, std::span<Real> numbers) {
    const bool sends = kind == request::push || comm_.rank() == 0;
    if (!std::exchange(has_joined_, true)) start_service<Real>(numbers.size());
    const span_on<Real, cpu> values{numbers.data(), numbers.size()};
    send_request(comm_, {kind, sizeof(Real), sends ? numbers.size_bytes() : 0}, bytes(values));
    receive(comm_.duplicate(reply_context), 0, bytes(values));
  }

  /// Rank 0 has the server's weights and clock, the others have nothing.
  template <class Real>
  [[nodiscard, gnu::cold]] reducer_state state() const {
    return service_.get() != nullptr ? service<Real>().state() : reducer_state{};
  }
  template <class Real>
  [[gnu::cold]] void restore(const reducer_state& state) const {
    const bool is_empty = state.numbers.empty() && state.counters.empty();
    expects(has_joined_ || is_empty,
            "server: restore() before initialize(), when rank 0 does not serve yet: call "
            "initialize() on every rank first");
    if (service_.get() != nullptr) service<Real>().restore(state);
  }

  [[nodiscard]] std::vector<std::int64_t> staleness() {
    const core::scoped_lock lock(clock_.mutex);
    return clock_.clock.staleness();
  }

 private:
  template <class Real>
  [[nodiscard]] auto& service() const {
    return *static_cast<parameter_service<Communicator, Real>*>(service_.get());
  }
  /// Blocks until rank 0's thread serves: an earlier server may still serve other ranks.
  template <class Real>
  void start_service(std::size_t numbers) {
    const Communicator replies = comm_.duplicate(reply_context);
    std::byte started{};
    if (comm_.rank() != 0) return receive(replies, 0, {&started, 1});
    service_ = core::owned_ptr<parameter_service<Communicator, Real>>::make(comm_, clock_, numbers);
    std::vector<send_op<cpu>> out;
    for (int rank = 1; rank < comm_.size(); ++rank) out.push_back({rank, {&started, 1}});
    replies.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>{},
                     cpu::stream{});
  }

  const Communicator comm_;
  const int exceptions_ = std::uncaught_exceptions();
  shared_staleness_clock clock_;
  bool has_joined_ = false;
  device::external_memory service_;  // of rank 0; last: it uses clock_
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
