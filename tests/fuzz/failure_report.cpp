// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is text of another process, after a byte that names a rank of 4: a failure report, of
// which only what is well-formed counts, and which is passed on with the same meaning; and the
// address of a bootstrap server.
#include <cordee/comm/failure/failure_report.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

void merge(std::string_view text, int rank) {
  constexpr int ranks = 4;
  failure first(ranks), second(ranks);
  first.record(rank, "a cause", true);
  first.merge_report(rank, text);
  (void)first.describe();
  if (rank < 0 || rank >= ranks) return;
  const std::string once = first.serialize_report(rank);
  second.merge_report(rank, once);
  fuzz::require(second.report_of(rank) == first.report_of(rank), "a report's text is passed on");
  fuzz::require(second.serialize_report(rank) == once, "a report is passed on whole");
}

void parse_operation(std::string_view line) {
  const auto op = completed_op::parse(line, 4);
  if (!op) return;
  fuzz::require(op->count >= 0 && !op->ranks.empty() && op->ranks.size() <= 4, "ranks of the run");
  const std::string written = op->serialize();
  const auto again = completed_op::parse(written, 4);
  fuzz::require(again && again->serialize() == written && again->ranks == op->ranks &&
                    again->name == op->name && again->count == op->count,
                "an operation is read back");
}

void parse_address(const std::string& text) {
  const auto address = bootstrap_address::parse(text);
  if (!address) return;
  const auto again = bootstrap_address::parse(address->serialize());
  fuzz::require(again && again->port == address->port && again->hosts == address->hosts &&
                    again->secret == address->secret,
                "an address is read back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  merge(text, data[0] % 6 - 1);
  parse_operation(text);
  parse_address(std::string(text));
  return 0;
}
