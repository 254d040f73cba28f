// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cordee/checkpoint/checkpoint_writer.hpp>
#include <cordee/checkpoint/resume.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/counting_communicator.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/large_model.hpp"
#include "tests/support/peak_memory.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;
namespace fs = std::filesystem;

TEST_CASE("checkpoint_writer: async holds the planes as they were, whatever is trained meanwhile") {
  const folder files;
  labelled<fp32> model;
  trainer run{model, sgd{}, falling, solo{}};
  auto feed = labelled_feed(self_comm{});
  checkpoint_writer writer;
  for (int k = 0; k < 2; ++k) run.step(feed.next(), 0);
  const run_folder all(files.file("runs"));
  all.create();
  writer.save(run, all, 2, true);
  const auto saved = std::vector<float>(run.weights().begin(), run.weights().end());
  run.step(feed.next(), 0);  // changes the planes that are being written
  writer.finish(run.comm());
  CHECK(all.steps() == std::vector<std::int64_t>{2});
  trainer other{model, sgd{}, falling, solo{}};
  CHECK(other.resume(all.path()));
  CHECK(std::equal(saved.begin(), saved.end(), other.weights().begin()));
}

TEST_CASE("checkpoint_writer: not async, the final name is there when save returns; same bytes") {
  const folder files;
  on_ranks(3, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, sgd{}, falling, ring{comm}};
    auto feed = labelled_feed(comm);
    for (int k = 0; k < 2; ++k) run.step(feed.next(), 0);
    for (const bool async : {true, false}) {
      const run_folder all(files.file(async ? "async" : "sync"));
      if (comm.rank() == 0) all.create();
      checkpoint_writer writer;
      writer.save(run, all, 2, async);
      if (!async) CHECK_FALSE(writer.is_writing());
      if (!async) CHECK(all.steps() == std::vector<std::int64_t>{2});
      writer.finish(comm);
    }
    return 0;
  });
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(files.file("async/latest"))) {
    const std::string name = entry.path().filename().string();
    CHECK_MESSAGE(
        files.get(concat("async/latest/", name)) == files.get(concat("sync/latest/", name)), name);
    ++compared;
  }
  CHECK(compared == 6);  // checkpoint.json, checksums, common, three ranks
}

TEST_CASE("checkpoint_writer: a rank that does not see rank 0's folder ends the run by name") {
  const folder files;
  const std::string message = error_message([&] {
    threads::launch(2, [&](threads comm) {
      labelled<fp32> model;
      trainer run{model, sgd{}, falling, ring{comm}};
      const run_folder own(files.file(concat("host", comm.rank())));
      own.create();
      checkpoint_writer writer;
      writer.save(run, own, 2, false);
    });
  });
  CHECK(contains(message, "checkpoint: rank 1 on "));
  CHECK(contains(message, "host1/step-00000000.partial, which rank 0 has made: .folder must be"));
}

TEST_CASE("checkpoint_writer: memory beyond the arena, with ten million parameters") {
  constexpr std::size_t n = 10'000'128;
  constexpr std::int64_t plane = 4 * static_cast<std::int64_t>(n);
  // Not async, and in resume: blocks of files (64 KiB), headers, JSON, a thread's stack; no term
  // grows with n. A tenth of a plane is a bound that a copy of one of four segments exceeds.
  constexpr std::int64_t bound = plane / 10;
  static_assert(bound < plane / 4 && bound < 64'000'000);
  const folder files;
  const run_folder all(files.file("runs"));
  all.create();
  large_model<n> model;
  trainer run{model, sgd{}, falling, solo{}};
  run.slot(0)[n - 1] = 0.25f;
  checkpoint_writer writer;
  const auto copied = peak_memory_of([&] {
    writer.save(run, all, 1, true);
    writer.finish(run.comm());
  });
  if (!copied) return skip("a sanitizer, or no peak memory in /proc/self/status");
  CHECK(*copied > 2 * plane - bound);  // weights and momentum: what the other bounds would notice
  CHECK(*copied < 2 * plane + bound);
  const auto streamed = peak_memory_of([&] { writer.save(run, all, 1, false); });
  CHECK(*streamed < bound);

  trainer other{model, sgd{}, falling, solo{}};
  std::fill_n(other.weights().data, n, 0.f);
  const auto resumed = peak_memory_of([&] { CHECK(other.resume(all.path())); });
  CHECK(*resumed < bound);
  CHECK(std::equal(run.weights().begin(), run.weights().end(), other.weights().begin()));
  CHECK(other.slot(0)[n - 1] == 0.25f);
  MESSAGE("bytes beyond the arena: async " << *copied << ", not async " << *streamed << ", resume "
                                           << *resumed);
}

TEST_CASE("checkpoint_writer: without memory for a copy the error names .async") {
  if (!measures_memory) return skip("a sanitizer ends a program without memory");
  const folder files;
  const run_folder all(files.file("runs"));
  all.create();
  large_model<10'000'128> model;
  trainer run{model, sgd{}, falling, solo{}};
  checkpoint_writer writer;
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  const auto size = status_bytes("VmSize");
  REQUIRE(size);
  const rlimit limit{static_cast<rlim_t>(*size + 20'000'000), before.rlim_max};
  ::setrlimit(RLIMIT_AS, &limit);
  const std::string message = error_message([&] { writer.save(run, all, 1, true); });
  ::setrlimit(RLIMIT_AS, &before);
  CHECK(contains(message, "checkpoint: no memory for a copy of 80001024 bytes"));
  CHECK(contains(message, "use .async = false"));
  checkpoint_writer().save(run, all, 1, false);
  CHECK(all.steps() == std::vector<std::int64_t>{0});
}

TEST_CASE("checkpoint_writer: ranks go on exchanging while another one writes") {
  std::array<traffic, 2> sent;  // by rank
  const auto reached = on_ranks(2, [&](threads comm) {
    const counting_communicator counted{comm, &sent[static_cast<std::size_t>(comm.rank())]};
    background_job job;
    std::atomic<bool> enough{comm.rank() != 0};
    if (comm.rank() == 0)
      job.start([&] {
        const std::atomic_ref messages(sent[1].messages);
        for (int k = 0; k < 3000 && messages < 4; ++k)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        enough = messages >= 4;
      });
    wait_on_all_ranks(job, counted);
    CHECK(job.finished());
    return enough.load();
  });
  CHECK((reached[0] && reached[1]));
}
