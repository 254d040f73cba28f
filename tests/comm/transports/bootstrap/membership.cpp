// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the file says by which new processes find a run, and what one sees that is not admitted;
// elastic runs are in zeromq/elastic.cpp.
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/membership.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

namespace {

membership_options at(const std::string& path, bool joins) {
  return {1, path, joins, 0ms, 300ms, "127.0.0.1"};
}
// A world of one rank, or of this one and another one that has the id 7.
struct lone_world {
  bool has_second = false;
  std::string cause{};
  static int rank() { return 0; }
  static std::string local_address() { return "127.0.0.1"; }
  static std::string server_address() { return "127.0.0.1"; }
  template <class T>
  std::vector<T> allgather(const T& own) {
    if (!has_second) return {own};
    T second = own;
    second.id = 7;
    return {own, second};
  }
  void fail(const std::string& why) { cause = why; }
};

}  // namespace

TEST_CASE("membership: rank 0 writes where new processes call, and a call ends the world") {
  const folder files;
  const std::string path = files.file("run");
  membership run(at(path, false));
  lone_world world;
  run.found(world);
  CHECK(run.current().number == 1);
  CHECK(run.current().members.size() == 1);
  const auto address = rendezvous_file{path}.find();
  REQUIRE(address);
  CHECK(address->hosts == std::vector<std::string>{"127.0.0.1"});
  CHECK(address->secret.size() == 32);

  membership joins(at(path, true));
  CHECK(contains_all(error_message([&] { joins.meet(300ms); }),
                     {"waited 300 ms for the run of", path, "to admit this process"}));
  run.watch(world);
  CHECK(contains(error_message([&] { joins.meet(300ms); }), "to admit this process"));
  run.unwatch();
  CHECK(world.cause == "a new rank joins");
  world.cause = {};
  run.watch(world);
  run.stop_admitting();
  CHECK(contains(error_message([&] { joins.meet(300ms); }), "to admit this process"));
  run.unwatch();
  CHECK(world.cause.empty());
}

TEST_CASE("membership: a member that has left its world says why, once however many pass it on") {
  for (const auto& [cause, described] :
       {std::pair{"rank 1: sent 8 bytes",
                  "another rank has left this generation: rank 1: sent 8 bytes"},
        {"rank 2: another rank has left this generation: rank 1: sent 8 bytes",
         "rank 2: another rank has left this generation: rank 1: sent 8 bytes"},
        {"", "another rank has left this generation"}}) {
    const folder files;
    membership run(at(files.file("run"), false));
    lone_world world{.has_second = true};
    run.found(world);
    const auto address = rendezvous_file{files.file("run")}.find();
    REQUIRE(address);
    meeting_point second("127.0.0.1");
    second.secret = address->secret;
    second.history = generation_history(run.current());
    run.watch(world);
    tcp_connection call = tcp_connection::connect("127.0.0.1", address->port);
    call.send({frame::meet, 0, second.meet_text({7, "127.0.0.1", second.port()}, 1s, cause)});
    std::this_thread::sleep_for(300ms);
    run.unwatch();
    CHECK(world.cause == described);
  }
}

TEST_CASE("membership: a process that joins says what it has found") {
  const folder files;
  membership none(at(files.file("run"), true));
  CHECK(contains(error_message([&] { none.meet(1ms); }), "there is no such file"));
  rendezvous_file{files.file("run")}.publish({1, "secret", {"127.0.0.1"}});
  CHECK(contains(error_message([&] { none.meet(1ms); }), "nothing answers at port 1 of 127.0.0.1"));
}
