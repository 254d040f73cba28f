// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/fibers.hpp>

using namespace cordee::detail::comm;

TEST_CASE("fibers: run in the order in which they became ready") {
  std::string order;
  fibers all(1u << 16);
  all.start([&] {
    order += 'a';
    all.suspend();
    order += 'd';
  });
  all.start([&] {
    order += 'b';
    all.yield();
    order += 'c';
    all.wake(0);
  });
  all.run();
  CHECK(order == "abcd");
  CHECK(all.current() == 0);
}

TEST_CASE("fibers: each has its own error context, which others can see, and its own sinks") {
  std::string seen;
  fibers all(1u << 16);
  const auto suffix = [] { return error_context::suffix(); };
  for (const char* name : {"first", "second"})
    all.start([&, name] {
      const auto describe = [name] { return std::string(name); };
      const error_context context(describe);
      cordee::detail::core::trace_sink sink;
      cordee::detail::core::add_trace_sink(sink);
      all.yield();
      seen += suffix() + (cordee::detail::core::trace_sinks == &sink ? "" : ", another's sinks");
      all.yield();
    });
  all.start([&] { seen += all.in_context_of(1, suffix) + suffix(); });
  all.run();
  CHECK(seen == " (second) (first) (second)");
  CHECK(suffix().empty());
  CHECK(cordee::detail::core::trace_sinks == nullptr);
}

TEST_CASE("fibers: one that is unwound may unwind another, each once") {
  std::string order;
  struct at_end {
    std::string& order;
    char name;
    fibers* all;
    std::size_t other;
    ~at_end() {
      order += name;
      if (all != nullptr) all->unwind(other);
      order += name;
    }
  };
  {
    fibers all(1u << 16);
    all.start([&] {
      const at_end scope{order, 'a', &all, 2};
      all.suspend();
    });
    for (const char name : {'b', 'c'})
      all.start([&, name] {
        const at_end scope{order, name, nullptr, 0};
        all.suspend();
      });
    all.run();
    CHECK(order.empty());
  }
  CHECK(order == "accabb");
}

TEST_CASE("fibers: a number that was released is the next one's, without what was its fiber's") {
  std::string order;
  fibers all(1u << 16);
  const auto sinks = [&] {
    if (cordee::detail::core::trace_sinks != nullptr) order += "another's sinks";
  };
  cordee::detail::core::trace_sink sink;
  all.start([&] {
    const std::size_t other = all.start([&] {
      cordee::detail::core::add_trace_sink(sink);
      order += 'b';
    });
    order += 'a';
    all.yield();
    all.release(other);
    CHECK(other == 1);
    CHECK(all.start([&] {
      sinks();
      order += 'd';
    }) == other);
    CHECK(all.start([&] { order += 'e'; }) == 2);
    order += 'c';
  });
  all.run();
  CHECK(order == "abcde");
}
