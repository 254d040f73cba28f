// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/comm/transports/bootstrap/rendezvous.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

static_assert(Rendezvous<rendezvous_tcp> && Rendezvous<rendezvous_file> &&
              Rendezvous<rendezvous_comm<threads>>);

namespace {
const bootstrap_address address{29500, "secret", {"node1", "10.0.0.1"}};
}  // namespace

TEST_CASE("bootstrap_address: parse reverses serialize, and rejects an incomplete text") {
  const auto parsed = bootstrap_address::parse(address.serialize());
  REQUIRE(parsed.has_value());
  CHECK(parsed->serialize() == "29500 secret node1 10.0.0.1");
  for (const char* incomplete :
       {"", "29500", "29500 secret", "here there then", "0 secret node1", "65536 secret node1",
        "-1 secret node1", "99999999999 secret node1"})
    CHECK_FALSE(bootstrap_address::parse(incomplete).has_value());
  const bootstrap_address open{1, "", {"node1"}};
  CHECK(bootstrap_address::parse(open.serialize())->secret.empty());
  CHECK_FALSE(contains(address.describe(), "secret"));
}

TEST_CASE("rendezvous_file: find returns the address that was published last, or none") {
  const folder temporary;
  rendezvous_file rendezvous{temporary.file("meet")};
  CHECK_FALSE(rendezvous.find().has_value());
  rendezvous.publish({1, "2", {"earlier"}});
  rendezvous.publish(address);
  REQUIRE(rendezvous.find().has_value());
  CHECK(rendezvous.find()->serialize() == address.serialize());
  struct stat status {};
  REQUIRE(stat(rendezvous.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);  // it has the run's secret
  CHECK(temporary.files() == 1);
  std::ofstream(rendezvous.path) << "29500 secret " << std::string(100'000, 'x');
  CHECK_FALSE(rendezvous.find().has_value());
  CHECK(contains(error_message([] {
                   rendezvous_file{"/no/such/folder/meet"}.publish({1, "2", {"x"}});
                 }),
                 "rendezvous_file: cannot write /no/such/folder/meet"));
}

TEST_CASE("rendezvous_comm: rank 0 sends the address once") {
  threads::launch(
      3,
      [](threads comm) {
        rendezvous_comm rendezvous{comm};
        CHECK(rendezvous.assignment() == rank_assignment{comm.rank(), 3});
        if (comm.rank() == 0) return rendezvous.publish(address);
        for (int k = 0; k < 2; ++k) CHECK(rendezvous.find()->serialize() == address.serialize());
      },
      long_deadline);
}

TEST_CASE("rendezvous: an address of 4096 bytes or more is an error, and is published by none") {
  const auto of_size = [](std::size_t n) {
    return bootstrap_address{1, "", {std::string(n - 4, 'x')}};
  };
  const folder temporary;
  const rendezvous_file file{temporary.file("meet")};
  threads::launch(1, [&](threads comm) {
    const rendezvous_comm over{comm};
    for (const std::size_t n : {4096u, 5000u}) {
      const std::string why = concat("have ", n, " bytes, but at most 4095 can be published");
      CHECK(contains(error_message([&] { over.publish(of_size(n)); }), why.c_str()));
      CHECK(contains(error_message([&] { file.publish(of_size(n)); }), why.c_str()));
    }
    CHECK(temporary.files() == 0);
    over.publish(of_size(4095));
    file.publish(of_size(4095));
    CHECK(file.find()->hosts == of_size(4095).hosts);
  });
}

TEST_CASE("rendezvous_tcp: a given address, or any port of the only rank") {
  const rendezvous_tcp given{master_address{"node7", 1234}};
  CHECK(given.port() == 1234);
  CHECK(given.find()->hosts == std::vector<std::string>{"node7"});
  CHECK(rendezvous_tcp{std::nullopt}.port() == 0);  // a run of one rank
  for (const std::string name : {"::1", "[::1]", "fe80::1%lo", "10.0.0.7", "node-7.cluster_1"})
    CHECK(rendezvous_tcp{master_address{name, 1}}.find()->hosts.front() == name);
}

TEST_CASE("rendezvous_tcp: what can be no address and no port is an error with its variable") {
  const auto message = [](const std::string& name, int port) {
    return error_message([&] { (void)rendezvous_tcp{{{name, port, "MASTER_ADDR"}}}.find(); });
  };
  for (const std::string name : {"", "http://node1", "node1:29500", "[::1]:29500", "node 1", "[]"})
    CHECK(message(name, 1).starts_with(
        concat("MASTER_ADDR=\"", name, "\" is neither a host's name nor its address")));
  for (const int port : {-1, 0, 65536})
    CHECK(message("node1", port) == concat("MASTER_ADDR: port ", port, " is not from 1 to 65535"));
}

TEST_CASE("first_line: of a regular file alone, of which a limited number of bytes is read") {
  const folder files;
  CHECK(first_line(files.put("a", {'x', 'y', '\n', 'z'}), 9) == "xy");
  CHECK(first_line(files.file("a"), 1) == "x");
  CHECK(first_line(files.file("absent"), 9).empty());
  REQUIRE(::mkfifo(files.file("pipe").c_str(), 0600) ==
          0);  // nobody writes: to open it would block
  ::alarm(30);
  CHECK(first_line(files.file("pipe"), 9).empty());
  ::alarm(0);
}

TEST_CASE("secret_from_environment: the variable, or else the first line of the file") {
  const folder temporary;
  const std::string file = temporary.file("secret"), none = temporary.file("none");
  std::ofstream(file) << "from the file\nmore\n";
  const auto secret = [](const char* key, const char* path) {
    return secret_from_environment([&](const char* name) -> const char* {
      return std::string(name) == "CORDEE_SECRET_KEY" ? key : path;
    });
  };
  CHECK(secret(nullptr, nullptr).empty());
  CHECK(secret("given", file.c_str()) == "given");
  CHECK(secret(nullptr, file.c_str()) == "from the file");
  CHECK(contains(error_message([&] { secret(nullptr, none.c_str()); }), "CORDEE_SECRET_KEY_FILE"));
  CHECK(secret(std::string(longest_secret, 'x').c_str(), nullptr).size() == longest_secret);
  const std::string longer(longest_secret + 1, 'x');
  CHECK(contains(error_message([&] { secret(longer.c_str(), nullptr); }), "at most 256 bytes"));
  std::ofstream(file) << longer;
  CHECK(contains(error_message([&] { secret(nullptr, file.c_str()); }), "at most 256 bytes"));
}

TEST_CASE("random_secret: 32 digits, others each time") {
  CHECK(random_secret().size() == 32);
  CHECK(random_secret() != random_secret());
}
