// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/process_handle.hpp>

using namespace cordee;

namespace {

/// A world of three ranks that records what it is asked for.
struct recorder {
  [[nodiscard]] int rank() const { return 1; }
  [[nodiscard]] int size() const { return 3; }
  int probe_any(int context, std::span<const int> expected) {
    probed = {context, static_cast<int>(expected.size())};
    return 2;
  }
  void fail(const char* why) { failed = why; }

  std::vector<int> probed{};
  std::string failed{};
};

class handle : public detail::comm::process_handle<handle, recorder> {
  using base = detail::comm::process_handle<handle, recorder>;
  friend base;

 public:
  static constexpr std::string_view name = "recorded";
  handle(std::shared_ptr<recorder> world, int context) : base(world, context) {}
  [[nodiscard]] int context() const { return context_; }
};

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const usage_error& e) {
    return e.what();
  }
  return {};
}

TEST_CASE("process_handle: a duplicate is the same rank with another context") {
  const auto world = std::make_shared<recorder>();
  const handle comm(world, detail::comm::reducer_context);
  const handle other = comm.duplicate(detail::comm::reply_context);
  CHECK(other.rank() == 1);
  CHECK(other.size() == 3);
  CHECK(other.context() == detail::comm::reply_context);
  CHECK(comm.context() == detail::comm::reducer_context);
  other.abort("the cause");
  CHECK(world->failed == "the cause");
}

TEST_CASE("process_handle: no such context and no such peer are usage errors of the transport") {
  const auto world = std::make_shared<recorder>();
  const handle comm(world, detail::comm::reducer_context);
  for (const int k : {-1, detail::comm::context_count})
    CHECK(message_of([&] { (void)comm.duplicate(k); }).find("recorded: no such context") !=
          std::string::npos);
  const std::vector<int> peers{0, 2}, beyond{0, 3};
  CHECK(message_of([&] {
          (void)comm.probe_any(peers);
        }).find("recorded: probe_any requires the request context") != std::string::npos);
  const handle requests = comm.duplicate(detail::comm::request_context);
  CHECK(message_of([&] { (void)requests.probe_any(beyond); }).find("recorded: no such peer") !=
        std::string::npos);
  CHECK(world->probed.empty());
  CHECK(requests.probe_any(peers) == 2);
  CHECK(world->probed == std::vector{detail::comm::request_context, 2});
}

}  // namespace
