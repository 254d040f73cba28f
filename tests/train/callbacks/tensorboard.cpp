// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/tensorboard.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/toy_run.hpp"

using namespace cordee;
using namespace support;

namespace {

struct event {
  std::int64_t step = 0;
  std::string version, tag;
  float value = 0;
  bool starts = false;
};

std::uint64_t number(const std::string& s, std::size_t at, int size) {
  std::uint64_t out = 0;
  for (int k = size; k-- > 0;)
    out = out << 8 | static_cast<unsigned char>(s.at(at + static_cast<std::size_t>(k)));
  return out;
}
std::uint64_t varint(const std::string& s, std::size_t& at) {
  std::uint64_t out = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(s.at(at++));
    out |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return out;
  }
}
std::string bytes(const std::string& s, std::size_t& at) {
  const auto size = static_cast<std::size_t>(varint(s, at));
  REQUIRE(at + size <= s.size());
  at += size;
  return s.substr(at - size, size);
}
std::uint64_t masked(const std::string& s) {
  return detail::io::masked_crc(
      detail::io::crc32c({reinterpret_cast<const std::uint8_t*>(s.data()), s.size()}));
}

/// The events of a file, by a decoder that shares nothing with the encoder.
std::vector<event> events(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<event> out;
  for (std::size_t at = 0; at < file.size();) {
    const auto size = static_cast<std::size_t>(number(file, at, 8));
    CHECK(number(file, at + 8, 4) == masked(file.substr(at, 8)));
    const std::string data = file.substr(at + 12, size);
    REQUIRE(data.size() == size);
    CHECK(number(file, at + 12 + size, 4) == masked(data));
    at += 16 + size;
    event e;
    for (std::size_t k = 0; k < size;) {
      const std::uint64_t key = varint(data, k);
      if (key == (1 << 3 | 1)) {
        CHECK(std::bit_cast<double>(number(data, k, 8)) > 1.7e9);  // a time of this century
        k += 8;
      } else if (key == (2 << 3 | 0)) {
        e.step = static_cast<std::int64_t>(varint(data, k));
      } else if (key == (3 << 3 | 2)) {
        e.version = bytes(data, k);
      } else if (key == (7 << 3 | 2)) {
        CHECK(bytes(data, k) == "\x08\x01");
        e.starts = true;
      } else if (key == (10 << 3 | 2)) {
        CHECK(bytes(data, k) ==
              "\x0a\x06"
              "cordee");
      } else {
        REQUIRE(key == (5 << 3 | 2));
        const std::string summary = bytes(data, k);
        std::size_t j = 0;
        REQUIRE(varint(summary, j) == (1 << 3 | 2));
        const std::string scalar = bytes(summary, j);
        CHECK(j == summary.size());
        j = 0;
        REQUIRE(varint(scalar, j) == (1 << 3 | 2));
        e.tag = bytes(scalar, j);
        REQUIRE(varint(scalar, j) == (2 << 3 | 5));
        e.value = std::bit_cast<float>(static_cast<std::uint32_t>(number(scalar, j, 4)));
        CHECK(j + 4 == scalar.size());
      }
    }
    out.push_back(e);
  }
  return out;
}

std::vector<std::filesystem::path> files_of(const std::string& path) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(path)) out.push_back(entry.path());
  return out;
}

std::string hexadecimal(const std::string& s) {
  std::string out;
  for (const char c : s) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

}  // namespace

TEST_CASE("tensorboard: the bytes of events are those that TensorBoard's own writer makes") {
  using detail::train::event_record;
  CHECK(hexadecimal(event_record(1700000000.25, 0, 3, "brain.Event:2")) ==
        "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
  CHECK(hexadecimal(
            event_record(1700000001.5, 300, 5, detail::train::scalar_summary("train/loss", 1.5))) ==
        "2100000000000000017becf60900006040fc54d94110ac022a130a110a0a747261696e2f6c6f7373"
        "150000c03fae40cbe1");
}

TEST_CASE("tensorboard: a run's file begins with the version and has the scalars of each step") {
  const folder here;
  const char* const named =
      std::getenv("CORDEE_TENSORBOARD_FOLDER");  // tests/scripts/event_files.py
  const std::string run = named != nullptr ? named : here.file("run");
  toy_run(tensorboard{run});  // makes the folder
  REQUIRE(files_of(run).size() == 1);
  const auto path = files_of(run)[0];
  CHECK(path.filename().string().rfind("events.out.tfevents.", 0) == 0);
  const auto all = events(path);
  REQUIRE(!all.empty());
  CHECK(all[0].version == "brain.Event:2");
  std::multiset<std::string> tags;
  for (const event& e : all) tags.insert(e.tag);
  for (const char* tag : {"train/loss", "train/accuracy", "train/learning_rate",
                          "train/gradient_norm", "train/images_per_second", "train/skipped"})
    CHECK_MESSAGE(tags.count(tag) == 20, tag);
  CHECK(tags.count("train/trust_ratio_median") == 19);  // one update is skipped
  CHECK(tags.count("train/loss_scale") == 0);
  for (const char* tag : {"validation/loss", "validation/accuracy", "validation/accuracy_top5"})
    CHECK_MESSAGE(tags.count(tag) == 2, tag);
  CHECK(all.back().step == 19);
}

TEST_CASE("tensorboard: values are means and rates of their step") {
  const folder here;
  tensorboard board{here.file("run")};
  board.begin({});
  board.step(record_of(0));
  board.step(measured(record_of(300)));
  board.epoch({record_of(300), {}, metrics{30, 15, 18, 20}, 0.0625});
  const auto all = events(files_of(here.file("run"))[0]);
  const auto value = [&](std::int64_t step, const std::string& tag) {
    for (const event& e : all)
      if (e.step == step && e.tag == tag) return e.value;
    return -1.0F;
  };
  for (const std::int64_t k : {0, 300}) {
    CHECK(value(k, "train/loss") == 1.5F);
    CHECK(value(k, "train/accuracy") == 0.25F);
    CHECK(value(k, "train/learning_rate") == 0.25F);
    CHECK(value(k, "train/gradient_norm") == 0.125F);
    CHECK(value(k, "train/skipped") == 0);
  }
  CHECK(value(0, "train/images_per_second") == static_cast<float>(8 / 1.5));
  CHECK(value(300, "train/images_per_second") == static_cast<float>(8 / 450.0));
  CHECK(value(300, "train/exposed_exchange_seconds") == 0.25F);
  CHECK(value(300, "train/loss_scale") == 1024);
  CHECK(value(300, "train/trust_ratio_third_quartile") == 4);
  CHECK(value(300, "train/consensus_distance") == 0.0625F);
  CHECK(value(300, "validation/loss") == 1.5F);
  CHECK(value(300, "validation/accuracy") == 0.75F);
  CHECK(value(300, "validation/accuracy_top5") == 0.9F);
}

TEST_CASE("tensorboard: numbers of a callback of one's own, from rank 0 alone") {
  const folder here;
  on_ranks(3, [&](threads comm) {
    quadratic<fp64> model;
    trainer run{model, lars{.trust_coefficient = 0.02}, constant{0.05}, ring{comm}};
    toy_loader feed{.rank_count = 3};
    tensorboard board{here.file("run")};
    board.scalar(0, "early", 1);  // before fit: there is no file
    struct norms {
      decltype(run)& trained;
      tensorboard& board;
      void step(const step_record& r) {
        if (r.info.step % 5 != 0) return;
        trained.for_gradient_norms([&](const segment& s, double norm, std::optional<double> ratio) {
          board.scalar(r.info.step, concat("gradient_norm/", s.name), norm);
          if (ratio) board.scalar(r.info.step, concat("trust_ratio/", s.name), *ratio);
        });
      }
    };
    run.fit(feed, 2, board, norms{run, board});
    board.scalar(20, "late", comm.rank());  // behind fit, into rank 0's file
    return 0;
  });
  REQUIRE(files_of(here.file("run")).size() == 1);
  std::multiset<std::string> tags;
  float first = 0;
  for (const event& e : events(files_of(here.file("run"))[0])) {
    tags.insert(e.tag);
    if (e.step == 0 && e.tag == "gradient_norm/b2") first = e.value;
    if (e.tag == "trust_ratio/W2") CHECK(e.step % 5 == 0);
  }
  for (const char* tag : {"gradient_norm/W1", "gradient_norm/b1", "gradient_norm/W2",
                          "gradient_norm/b2", "trust_ratio/W1", "trust_ratio/W2"})
    CHECK_MESSAGE(tags.count(tag) == 4, tag);
  CHECK(tags.count("trust_ratio/b1") == 0);
  CHECK(tags.count("early") == 0);
  CHECK(tags.count("late") == 1);
  CHECK(first == 0.05F);  // of T4's b2: 1 * (0.05 - 0)
}

TEST_CASE("tensorboard: a further fit appends, another object writes another file") {
  const folder here;
  tensorboard board{here.file("run")};
  for (int k = 0; k < 2; ++k) {
    board.begin({.first_step = k});
    board.step(record_of(k));
    board.end({});
  }
  REQUIRE(files_of(here.file("run")).size() == 1);
  const auto all = events(files_of(here.file("run"))[0]);
  CHECK(all.size() == 1 + 2 * 7);
  tensorboard resumed{here.file("run")};
  resumed.begin({.first_step = 2});
  CHECK(files_of(here.file("run")).size() == 2);
}

TEST_CASE("tensorboard: a resumed run removes the steps that it repeats, and half a record") {
  const folder here;
  const std::string path = here.file("run");
  {
    tensorboard killed{path};
    killed.begin({});
    for (int k = 0; k < 6; ++k) killed.step(record_of(k));
    killed.epoch({record_of(3), {}, metrics{30, 15, 18, 20}, {}});  // behind later steps, as is
  }
  std::ofstream(files_of(path)[0], std::ios::app) << "half a record";
  const auto foreign = [&](const char* name) { return path + "/events.out.tfevents." + name; };
  std::ofstream(foreign("empty"));
  std::ofstream(foreign("other")) << detail::train::event_record(1.8e9, 0, 3, "brain.Event:2")
                                  << detail::train::event_record(1.8e9, 9, 5, "");
  const auto size_of_other = std::filesystem::file_size(foreign("other"));
  tensorboard resumed{path};
  resumed.begin({.first_step = 4});
  for (int k = 4; k < 8; ++k) resumed.step(record_of(k));
  resumed.end({});
  CHECK(std::filesystem::file_size(foreign("other")) == size_of_other);
  std::filesystem::remove(foreign("other"));
  std::multiset<std::int64_t> losses;
  int starts = 0;
  for (const auto& file : files_of(path))
    for (const event& e : events(file)) {
      if (e.tag == "train/loss") losses.insert(e.step);
      if (!e.starts) continue;
      ++starts;
      CHECK(e.step == 4);
    }
  CHECK(losses == std::multiset<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(starts == 1);
}

TEST_CASE("tensorboard: what cannot be written is an error with its name and the remedy") {
  const folder here;
  CHECK(contains(error_message([] { toy_run(tensorboard{"/nowhere/at/all"}); }),
                 "tensorboard: cannot make the folder \"/nowhere/at/all\": No such file or "
                 "directory; make the folder that holds it"));
  here.put("file", {});
  CHECK(contains(error_message([&] { toy_run(tensorboard{here.file("file")}); }),
                 "; name a folder that can be written"));
  // As a full disk: no file may become larger than 500 bytes.
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{500, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string text = error_message([&] { toy_run(tensorboard{here.file("full")}); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(text, "tensorboard: cannot write \""));
  CHECK(contains(text, "on a disk that has room"));
}
