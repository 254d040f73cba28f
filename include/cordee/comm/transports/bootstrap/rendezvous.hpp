// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of nccl::launch and zeromq::launch find rank 0's bootstrap server: by a file that
// all can read, an existing communicator, or an address given to every rank at its start.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <locale>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <cordee/comm/transports/bootstrap/bootstrap_server.hpp>
#include <cordee/comm/transports/bootstrap/socket_address.hpp>
#include <cordee/comm/transports/launcher_environment.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Size of a serialized address, with its terminator.
inline constexpr std::size_t longest_address = 4096;

/// "29500 9f86d081 node1 10.0.0.1": the server's port, the run's secret, and names and addresses of
/// its host.
struct bootstrap_address {
  int port = 0;
  std::string secret{};  // "" is written as "-"
  std::vector<std::string> hosts{};
  std::string source{};  // the variable that has given the only host; not serialized

  /// Throws error for more bytes than a rank reads.
  [[nodiscard]] std::string serialize() const {
    std::string text = concat(port, " ", secret.empty() ? "-" : secret);
    for (const std::string& host : hosts) text += " " + host;
    if (text.size() >= longest_address)
      throw error(concat("rendezvous: rank 0's port, secret and ", hosts.size(), " addresses have ",
                         text.size(), " bytes, but at most ", longest_address - 1,
                         " can be published: set MASTER_ADDR and MASTER_PORT, and use "
                         "rendezvous_tcp"));
    return text;
  }
  /// Without the secret, for messages.
  [[nodiscard]] std::string describe() const {
    std::string text = concat("port ", port, " of");
    for (const std::string& host : hosts) text += " " + host;
    return text;
  }
  /// Empty if the text is incomplete, or none that serialize() returns.
  static std::optional<bootstrap_address> parse(const std::string& text) {
    if (text.size() >= longest_address) return {};
    std::istringstream in(text);
    in.imbue(std::locale::classic());
    bootstrap_address address;
    if (!(in >> address.port >> address.secret)) return {};
    if (address.port <= 0 || address.port > 65535) return {};
    if (address.secret == "-") address.secret.clear();
    for (std::string host; in >> host;) address.hosts.push_back(host);
    if (address.hosts.empty()) return {};
    return address;
  }
};

/// assignment(): this process's rank. port(), host(): where rank 0 listens, 0 for any port, "" for
/// all addresses. secret(): the run's; a rendezvous for any port has none and gets a random one.
/// Rank 0 calls
/// publish() with the server's address; the other ranks call find(), which returns an empty
/// optional until the address is known, again and again until rank 0 answers there.
template <class R>
concept Rendezvous = requires(R r, const bootstrap_address& address) {
  { r.assignment() } -> std::same_as<rank_assignment>;
  { r.port() } -> std::same_as<int>;
  { r.host() } -> std::same_as<std::string>;
  { r.secret() } -> std::same_as<std::string>;
  { r.publish(address) } -> std::same_as<void>;
  { r.find() } -> std::same_as<std::optional<bootstrap_address>>;
};

inline rank_assignment assignment_of_this_process() {
  const auto launched = rank_from_environment([](const char* name) { return std::getenv(name); });
  return launched ? *launched : rank_assignment{0, 1, "no launcher"};
}

/// 128 random bits as 32 hexadecimal digits.
[[gnu::cold]] inline std::string random_secret() {
  std::random_device bits;
  std::string digits;
  while (digits.size() < 32) digits += "0123456789abcdef"[bits() % 16];
  return digits;
}

/// The first line of a regular file, of which `most` bytes are read; empty if it cannot be read.
[[gnu::cold]] inline std::string first_line(const std::string& path, std::size_t most) {
  try {
    const io::input_file file(path);
    std::vector<std::uint8_t> bytes(
        static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), most)));
    file.read_at(0, bytes);
    return {bytes.begin(), std::find(bytes.begin(), bytes.end(), std::uint8_t{'\n'})};
  } catch (const io::read_error&) {  // perhaps another rank writes it now
    return {};
  }
}

/// The value of CORDEE_SECRET_KEY, or the first line of the file that CORDEE_SECRET_KEY_FILE names;
/// empty where neither is set.
template <class Variable>
[[gnu::cold]] std::string secret_from_environment(const Variable& variable) {
  const char* const key = variable("CORDEE_SECRET_KEY");
  const char* const path = variable("CORDEE_SECRET_KEY_FILE");
  std::string secret = key != nullptr ? key : "";
  if (key == nullptr && path != nullptr) {
    secret = first_line(path, longest_secret + 1);
    if (secret.empty())
      throw error(
          concat("CORDEE_SECRET_KEY_FILE: cannot read a secret in the first line of ", path));
  }
  if (secret.size() > longest_secret)
    throw error(concat("CORDEE_SECRET_KEY: a secret has at most ", longest_secret, " bytes"));
  return secret;
}

/// Throws where it can be no address. A name has no colon, slash, space: whether it resolves is
/// known when it is tried.
[[nodiscard, gnu::cold]] inline master_address checked(master_address address) {
  const std::string what = address.variable.empty() ? "rendezvous_tcp" : address.variable;
  if (address.port < 1 || address.port > 65535)
    throw error(concat(what, ": port ", address.port, " is not from 1 to 65535"));
  const bool is_name = !address.name.empty() && std::ranges::none_of(address.name, [](char c) {
    return c == ':' || c == '/' || c == '[' || c == ']' || c == '%' ||
           static_cast<unsigned char>(c) <= ' ';
  });
  if (is_name) return address;
  const std::string why = resolve(address.name, address.port, AI_NUMERICHOST).failure;
  if (!address.name.empty() && why.empty()) return address;
  throw error(concat(what, "=\"", address.name, "\" is neither a host's name nor its address",
                     why.empty() ? "" : concat(" (", why, ")"), "; the port is MASTER_PORT's"));
}

}  // namespace detail::comm

/// An address given to every rank at its start: MASTER_ADDR and MASTER_PORT, as torchrun sets them,
/// or another one. A run of one rank needs none. Rank 0 listens there until all ranks have joined.
/// If other users can reach it, give every rank the same secret in CORDEE_SECRET_KEY, or in a file
/// named by CORDEE_SECRET_KEY_FILE. A host name may have several addresses, IPv4 or IPv6 ("::1",
/// also in brackets); each is tried.
struct rendezvous_tcp {
  /// Address at which rank 0 listens; empty if a variable is not set. Range: a host's name or
  /// address and a port from 1 to 65535, else error. Default: MASTER_ADDR and MASTER_PORT; the next
  /// port if torchrun's agent occupies that one.
  std::optional<detail::comm::master_address> address =
      detail::comm::master_from_environment([](const char* name) { return std::getenv(name); });

  /// This process's rank from its launcher's variables; without a launcher, rank 0 of 1.
  /// @throws error for variables that are not numbers or contradict each other.
  [[nodiscard]] static detail::comm::rank_assignment assignment() {
    return detail::comm::assignment_of_this_process();
  }
  /// The address's port; in a run of one rank 0, any port.
  /// @throws error for several ranks without an address.
  [[nodiscard]] int port() const { return known_address().port; }
  /// Does nothing: all ranks know the address.
  void publish(const detail::comm::bootstrap_address&) const {}
  /// The address, with the secret.
  /// @throws error for several ranks without an address.
  [[nodiscard]] std::optional<detail::comm::bootstrap_address> find() const {
    const detail::comm::master_address known = known_address();
    return detail::comm::bootstrap_address{known.port, secret(), {known.name}, known.variable};
  }
  /// The name or address at which rank 0 listens.
  [[nodiscard]] std::string host() const { return known_address().name; }
  /// The run's secret; empty if neither variable is set.
  /// @throws error for a file that cannot be read, or a secret that is too long.
  [[nodiscard]] static std::string secret() {
    return detail::comm::secret_from_environment(
        [](const char* name) { return std::getenv(name); });
  }

 private:
  [[nodiscard]] detail::comm::master_address known_address() const {
    if (address) return detail::comm::checked(*address);
    if (assignment().size == 1) return {"127.0.0.1", 0};
    throw error(
        "launch: no rendezvous address: start the ranks by torchrun, set MASTER_ADDR and "
        "MASTER_PORT, or pass rendezvous_file{\"a path that all ranks can access\"} or "
        "rendezvous_comm{an mpi communicator}");
  }
};

/// A path in a folder that all ranks can access; rank 0's operating system chooses the port. The
/// file holds the run's random secret and is readable by its owner only. A file left by an earlier
/// run is harmless: nothing answers at its address with that secret.
struct rendezvous_file {
  /// The file that rank 0 writes and the other ranks read.
  std::string path;

  /// This process's rank from its launcher's variables; without a launcher, rank 0 of 1.
  /// @throws error for variables that are not numbers or contradict each other.
  [[nodiscard]] static detail::comm::rank_assignment assignment() {
    return detail::comm::assignment_of_this_process();
  }
  /// 0: any port.
  [[nodiscard]] static int port() { return 0; }
  /// Empty: all addresses.
  [[nodiscard]] static std::string host() { return {}; }
  /// Empty: a random one.
  [[nodiscard]] static std::string secret() { return {}; }
  /// Replaces the file atomically.
  /// @throws error if it cannot be written, and for an address of more than 4095 bytes.
  void publish(const detail::comm::bootstrap_address& address) const {
    const std::string temporary = concat(path, ".", detail::comm::random_secret());
    const std::string line = address.serialize() + "\n";
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool written =
        file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    if (file >= 0) ::close(file);
    if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return;
    if (file >= 0) ::unlink(temporary.c_str());
    throw error(concat("rendezvous_file: cannot write ", path,
                       ": choose a folder that all ranks can access and rank 0 may write to"));
  }
  /// The address in the file; empty while the file does not exist.
  [[nodiscard]] std::optional<detail::comm::bootstrap_address> find() const {
    const std::string line = detail::comm::first_line(path, detail::comm::longest_address);
    if (line.empty() || line.size() == detail::comm::longest_address) return {};  // none of ours
    return detail::comm::bootstrap_address::parse(line.c_str());
  }
};

/// Rendezvous over a communicator of the same ranks, such as mpi's.
template <class Communicator>
  requires TransportOn<Communicator, cpu>
struct rendezvous_comm {
  Communicator comm;  ///< A communicator of the run's ranks.
  std::optional<detail::comm::bootstrap_address> received{};  ///< State: what find() has received.

  /// Rank and size of the communicator.
  [[nodiscard]] detail::comm::rank_assignment assignment() const {
    return {comm.rank(), comm.size(), "rendezvous_comm"};
  }
  /// 0: any port.
  [[nodiscard]] static int port() { return 0; }
  /// Empty: all addresses.
  [[nodiscard]] static std::string host() { return {}; }
  /// Empty: a random one.
  [[nodiscard]] static std::string secret() { return {}; }
  /// Sends the address to all other ranks.
  /// @throws error for an address of more than 4095 bytes, or if the run fails.
  void publish(const detail::comm::bootstrap_address& address) const {
    std::array<char, detail::comm::longest_address> text{};
    address.serialize().copy(text.data(), text.size() - 1);
    std::vector<send_op<cpu>> out;
    for (int peer = 1; peer < comm.size(); ++peer)
      out.push_back({peer, {reinterpret_cast<const std::byte*>(text.data()), text.size()}});
    exchange(out, {});
  }
  /// Receives the address from rank 0 on the first call, which blocks.
  [[nodiscard]] std::optional<detail::comm::bootstrap_address> find() {
    if (received) return received;
    std::array<char, detail::comm::longest_address> text{};
    exchange({}, {{0, {reinterpret_cast<std::byte*>(text.data()), text.size()}}});
    return received = detail::comm::bootstrap_address::parse(text.data());
  }

 private:
  void exchange(const std::vector<send_op<cpu>>& out, const std::vector<recv_op<cpu>>& in) const {
    comm.duplicate(detail::comm::agreement_context)
        .exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                  cpu::stream{});
  }
};
template <class Communicator>
rendezvous_comm(Communicator) -> rendezvous_comm<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
