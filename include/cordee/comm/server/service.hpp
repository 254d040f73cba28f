// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The thread of rank 0 that keeps a parameter server's weights, and what its workers say to it.
//
//   lane 2: a request, and the numbers that belong to it
//   lane 3: a byte when the server is there, then the weights, as they are then
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/comm/errand.hpp>
#include <cordee/comm/server/pace.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail {

struct request {
  enum kind : std::uint32_t { greeting, push, farewell, flight } what;
  std::uint32_t width;  // bytes of a number
  std::uint64_t bytes;  // that follow
};

/// Says a request and what belongs to it; waits until the server has taken both.
template <class Link>
void ask(const Link& link, const request& r, span_on<const std::byte, cpu> numbers) {
  const std::array out{to<cpu>{0, {reinterpret_cast<const std::byte*>(&r), sizeof r}},
                       to<cpu>{0, numbers}};
  link.lane(request_lane)
      .exchange(std::span<const to<cpu>>(out).first(r.bytes == 0 ? 1 : 2),
                std::span<const from<cpu>>{}, cpu::stream{});
}
template <class Link>
void hear_from(const Link& link, int peer, span_on<std::byte, cpu> what) {
  const from<cpu> in{peer, what};
  link.exchange(std::span<const to<cpu>>{}, std::span<const from<cpu>>(&in, 1), cpu::stream{});
}

/// Weights that grow by what workers push.
template <class Real>
class parameter_board {
 public:
  explicit parameter_board(std::size_t n) : weights_(n), moved_(n) {}

  [[nodiscard]] std::vector<Real>& weights() { return weights_; }
  /// Where a worker's push is laid.
  [[nodiscard]] std::vector<Real>& moved() { return moved_; }

  /// What lies there counts for `share`, and is averaged over `batch` pushes; weights change when
  /// as many have come.
  void gather(double share, int batch, bool updates) {
    const auto each = static_cast<Real>(share);
    std::vector<Real>& sum = batch == 1 ? weights_ : sum_;
    sum.resize(moved_.size());
    for (std::size_t i = 0; i < moved_.size(); ++i) sum[i] += each * moved_[i];
    if (batch == 1 || !updates) return;
    const auto count = static_cast<Real>(batch);
    for (std::size_t i = 0; i < moved_.size(); ++i)
      weights_[i] += std::exchange(sum_[i], Real{0}) / count;
  }

 private:
  std::vector<Real> weights_, moved_, sum_;
};

/// How far the workers are, for the thread that serves and for who asks.
struct shared_pace {
  std::mutex mutex;
  pace at;
};

template <class Link, class Real>
class parameter_service {
 public:
  parameter_service(const Link& link, shared_pace& book, std::size_t numbers)
      : link_(link), book_(book), board_(numbers), thread_(start<&parameter_service::run>(*this)) {}
  parameter_service(const parameter_service&) = delete;
  parameter_service& operator=(const parameter_service&) = delete;
  ~parameter_service() { thread_.join(); }

 private:
  void run() {
    const auto words = [this] { return with_pace([](pace& p) { return p.describe(); }); };
    const auto heard = [this] { return with_pace([](pace& p) { return p.heard(); }); };
    const errand here(words, heard);
    try {
      while (attend()) {
      }
    } catch (const std::exception& e) {
      abandon(link_, e.what());
    }
  }

  // One request; whether there will be another.
  bool attend() {
    const Link requests = link_.lane(request_lane);
    const int peer = requests.next(with_pace([](pace& p) { return p.due(); }));
    request r{};
    hear_from(requests, peer, {reinterpret_cast<std::byte*>(&r), sizeof r});
    if (r.what == request::flight) return false;
    std::vector<Real>& room = r.what == request::greeting ? board_.weights() : board_.moved();
    if (r.bytes > 0) {
      if (r.width != sizeof(Real) || r.bytes != room.size() * sizeof(Real))
        throw error(text("server: rank ", peer, " pushes ", r.bytes, " bytes in numbers of ",
                         r.width, ", rank 0 keeps ", room.size(), " numbers of ", sizeof(Real),
                         ": the ranks disagree on what they train"));
      hear_from(requests, peer, bytes(span_on<Real, cpu>{room.data(), room.size()}));
    }
    with_pace([&](pace& p) {
      if (r.what == request::greeting) return p.greet(peer);
      if (r.what == request::farewell) return p.leave(peer);
      const double share = p.push(peer);
      board_.gather(share, p.batch(), p.updates());
    });
    for (int rank; (rank = with_pace([](pace& p) { return p.answer(); })) >= 0;) tell(rank);
    return !with_pace([](pace& p) { return p.over(); });
  }

  void tell(int rank) {
    const auto& w = board_.weights();
    const to<cpu> out{rank, const_bytes(span_on<const Real, cpu>{w.data(), w.size()})};
    link_.lane(answer_lane)
        .exchange(std::span<const to<cpu>>(&out, 1), std::span<const from<cpu>>{}, cpu::stream{});
  }

  template <class F>
  auto with_pace(const F& f) {
    const std::scoped_lock lock(book_.mutex);
    return f(book_.at);
  }

  const Link link_;
  shared_pace& book_;
  parameter_board<Real> board_;
  std::thread thread_;  // last: it uses the others
};

/// One rank at a server, from its first greeting until the last copy of its reducer goes: then it
/// says farewell, and rank 0 serves on until all have. Who goes because something was thrown just
/// goes: the link will say why.
template <class Link>
class presence {
 public:
  [[gnu::cold]] presence(const Link& link, const asynchronous& how)
      : link_(link), book_{{}, pace(link.size(), how)} {}
  presence(const presence&) = delete;
  presence& operator=(const presence&) = delete;
  [[gnu::cold]] ~presence() {
    if (!greeted_) return;
    const bool flees = std::uncaught_exceptions() > exceptions_;
    if (flees && link_.rank() != 0) return;
    try {
      ask(link_, {flees ? request::flight : request::farewell, 0, 0}, {});
    } catch (const std::exception&) {  // the run has failed, and its end is on its way
    }
  }

  /// Rank 0's numbers are everybody's first; then, and after each push, what the server has.
  template <class Real>
  void converse(request::kind what, std::span<Real> numbers) {
    const bool speaks = what == request::push || link_.rank() == 0;
    if (!std::exchange(greeted_, true)) open<Real>(numbers.size());
    const span_on<Real, cpu> here{numbers.data(), numbers.size()};
    ask(link_, {what, sizeof(Real), speaks ? numbers.size_bytes() : 0}, const_bytes(here));
    hear_from(link_.lane(answer_lane), 0, bytes(here));
  }

  [[nodiscard]] std::vector<std::int64_t> staleness() {
    const std::scoped_lock lock(book_.mutex);
    return book_.at.staleness();
  }

 private:
  /// Nobody greets before this server is there: the one before it may serve others still.
  template <class Real>
  void open(std::size_t numbers) {
    const Link answers = link_.lane(answer_lane);
    std::byte word{};
    if (link_.rank() != 0) return hear_from(answers, 0, {&word, 1});
    serving_ = std::make_shared<parameter_service<Link, Real>>(link_, book_, numbers);
    std::vector<to<cpu>> out;
    for (int rank = 1; rank < link_.size(); ++rank) out.push_back({rank, {&word, 1}});
    answers.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>{}, cpu::stream{});
  }

  const Link link_;
  const int exceptions_ = std::uncaught_exceptions();
  shared_pace book_;
  bool greeted_ = false;
  std::shared_ptr<void> serving_;  // on rank 0; last: it uses the book
};

}  // namespace cordee::inline CORDEE_ABI::detail
