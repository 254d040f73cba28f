// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One lane over NCCL: a communicator that never blocks the host, and a wait that hears of failures.
//
// NCCL compares no sizes and waits for ever. So each message is preceded, in the same group, by its
// size; the host looks at those when all has come, and meanwhile when it takes long. Whoever waits
// polls the communicator and an event of the stream; when somebody has failed, or the deadline is
// over, ncclCommAbort ends what is under way and an error says for whom it had waited.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cordee/comm/errand.hpp>
#include <cordee/comm/nccl/guest.hpp>
#include <cordee/comm/nccl/rooms.hpp>
#include <cordee/comm/nccl/status.hpp>
#include <cordee/comm/nccl/vigil.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// One message of an exchange.
struct nccl_parcel {
  int peer;
  void* data;
  std::size_t size;
};
using nccl_parcels = std::span<const nccl_parcel>;

/// Used by one thread at a time.
class nccl_channel {
 public:
  using clock = std::chrono::steady_clock;

  /// All ranks, with the same id.
  nccl_channel(guest& others, const standing& here, int lane, int device,
               std::chrono::milliseconds deadline, const ncclUniqueId& id)
      : others_(others), here_(here), lane_(lane), device_(device), deadline_(deadline) {
    try {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      nccl_check(ncclCommInitRankConfig(&all_, here.size, id, here.rank, &config),
                 "ncclCommInitRankConfig");
      await([this] { return settled("ncclCommInitRankConfig"); }, {.what = "begin"});
    } catch (...) {
      close();
      throw;
    }
  }
  nccl_channel(const nccl_channel&) = delete;
  ~nccl_channel() { close(); }

  /// A stream of this lane's own, of a thread that is then about this GPU.
  [[nodiscard]] cudaStream_t own() const {
    cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    return cuda_.own;
  }

  /// Hears and says all parcels, of this GPU's memory, in the order of the stream; returns when it
  /// is done, or throws.
  void exchange(nccl_parcels heard, nccl_parcels said, cudaStream_t s) {
    if (heard.empty() && said.empty()) return;
    guarded(s, [&] {
      const std::size_t n = heard.size() + said.size();
      sizes_.reserve(2 * n);
      std::fill_n(sizes_.data(), 2 * n, unknown);
      for (std::size_t i = 0; i < said.size(); ++i) sizes_.data()[heard.size() + i] = said[i].size;
      const cuda_room there(n * sizeof(std::uint64_t), s);
      auto* const sizes = reinterpret_cast<std::uint64_t*>(there.data());
      copy(sizes, sizes_.data(), n, s);
      cuda_check(cudaEventRecord(cuda_.begun, s), "cudaEventRecord");
      group([&](const auto& check) {
        for (std::size_t i = 0; i < n; ++i) {
          const bool hears = i < heard.size();
          const nccl_parcel& p = hears ? heard[i] : said[i - heard.size()];
          const auto pass = [&](void* data, std::size_t count, ncclDataType_t type) {
            if (count != 0)
              check(hears ? ncclRecv(data, count, type, p.peer, all_, s)
                          : ncclSend(data, count, type, p.peer, all_, s));
          };
          pass(sizes + i, 1, ncclUint64);
          pass(p.data, p.size, ncclUint8);
        }
      });
      const awaited mine{heard, said, sizes, sizes_.data() + n, cuda_.begun};
      await([&] { return settled("ncclGroupEnd"); }, mine);
      copy(sizes_.data(), sizes, heard.size(), s);
      cuda_check(cudaEventRecord(cuda_.done, s), "cudaEventRecord");
      await([&] { return passed(); }, mine);
      for (std::size_t i = 0; i < heard.size(); ++i) compare(heard[i], sizes_.data()[i]);
    });
  }

  /// The sum or, as NCCL makes it, the average of n numbers over all ranks, in place.
  void reduce(void* x, std::size_t n, ncclDataType_t type, ncclRedOp_t how, cudaStream_t s) {
    if (n == 0) return;
    guarded(s, [&] {
      cuda_check(cudaEventRecord(cuda_.begun, s), "cudaEventRecord");
      nccl_check(ncclAllReduce(x, x, n, type, how, all_, s), "ncclAllReduce", all_);
      const std::string words = text("bring ", n, " numbers to a mean");
      const awaited mine{.begun = cuda_.begun, .what = words.c_str()};
      await([&] { return settled("ncclAllReduce"); }, mine);
      cuda_check(cudaEventRecord(cuda_.done, s), "cudaEventRecord");
      await([&] { return passed(); }, mine);
    });
  }

  /// Everything that was said has been heard; all ranks.
  void finish() {
    if (all_ == nullptr) return;
    nccl_check(ncclCommFinalize(all_), "ncclCommFinalize", all_);
    await([this] { return settled("ncclCommFinalize"); }, {.what = "end"});
    nccl_check(ncclCommDestroy(std::exchange(all_, nullptr)), "ncclCommDestroy");
  }

 private:
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  struct awaited {
    nccl_parcels heard{}, said{};
    const std::uint64_t* sizes = nullptr;  // on the GPU, of what is heard and then of what is said
    std::uint64_t* seen = nullptr;         // those that had come at the last look
    cudaEvent_t begun = nullptr;           // its time counts from there
    const char* what = "";                 // that every rank does, where there are no parcels
  };

  static void copy(std::uint64_t* out, const std::uint64_t* in, std::size_t n, cudaStream_t s) {
    if (n != 0)
      cuda_check(cudaMemcpyAsync(out, in, n * sizeof *in, cudaMemcpyDefault, s), "cudaMemcpyAsync");
  }

  // Between ncclGroupStart and ncclGroupEnd, which comes whatever fails.
  template <class F>
  void group(const F& f) {
    nccl_check(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t first = ncclSuccess;
    f([&](ncclResult_t status) {
      if (first == ncclSuccess && status != ncclInProgress) first = status;
    });
    const ncclResult_t last = ncclGroupEnd();
    nccl_check(first, "ncclSend or ncclRecv", all_);
    nccl_check(last, "ncclGroupEnd", all_);
  }

  template <class F>
  void guarded(cudaStream_t s, const F& f) {
    if (others_.first.happened() || all_ == nullptr) give_up();
    cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    try {
      f();
    } catch (const std::exception& e) {
      others_.fail(e.what());  // unless it was a failure that made it throw
      abort(s);
      throw;
    }
  }

  // Whether what the communicator was told to do is on its stream.
  bool settled(const char* call) {
    ncclResult_t state = ncclSuccess;
    nccl_check(ncclCommGetAsyncError(all_, &state), "ncclCommGetAsyncError", all_);
    if (state == ncclInProgress) return false;
    if (state == ncclSuccess) return true;
    hear_cause();
    nccl_failed(state, text(call, " on lane ", lane_), all_);
  }
  bool passed() { return settled("a transfer") && has_passed(cuda_.done); }
  static bool has_passed(cudaEvent_t e) {
    const cudaError_t status = cudaEventQuery(e);
    if (status != cudaErrorNotReady) cuda_check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }

  // Waiters look, yielding, and nap when it takes long. What the stream has to do before is no
  // peer's fault.
  template <class Ready>
  void await(const Ready& ready, const awaited& mine) {
    vigil v(clock::now());
    for (bool begun = mine.begun == nullptr; !ready();) {
      const auto now = clock::now();
      if (!begun && !(begun = has_passed(mine.begun))) v.begin(now);
      if (v.lasts(now) < std::chrono::milliseconds(1)) {
        std::this_thread::yield();
      } else {
        if (v.looks(now)) look(mine);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      go_on(v, now, mine);
    }
  }

  // Returns if there is reason to wait on.
  void go_on(vigil& v, clock::time_point now, const awaited& mine) {
    const auto waited = v.lasts(now);
    if (waited < std::chrono::microseconds(20)) return;
    others_.attend();
    const int gone = waited > vigil::between_looks ? who_left(mine) : -1;
    if (!others_.first.happened() && waited <= deadline_ && !v.is_in_vain(gone >= 0, now)) return;
    for (int twice = 0; twice < 2; ++twice) look(mine);
    const std::string of = missing(mine);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited);
    const std::string at = text("had waited ", ms.count(), " ms for ", of, errand::words());
    others_.first.report(here_.rank, at, ms, errand::reached());
    if (others_.first.happened()) give_up();
    const std::string why =
        (gone >= 0 ? text("rank ", here_.rank, " waits for ", of, ", but rank ", gone,
                          " has left the run: every rank must make the same exchanges")
                   : text("rank ", here_.rank, " waited ", deadline_.count(), " ms for ", of,
                          ": it, or whom it waits for itself, is stuck or slower than "
                          "nccl::options{.deadline}")) +
        errand::words();
    others_.fail(why, true);
    throw error(why);
  }
  [[noreturn, gnu::cold]] void give_up() const {
    throw error(text("rank ", here_.rank, " gave up: ", others_.first.cause()));
  }
  // NCCL may see that a peer has gone before its last words, or the end of its line, are here.
  [[gnu::cold]] void hear_cause() {
    for (int k = 0; k < 500 && !others_.first.happened(); ++k) {
      others_.attend();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (others_.first.happened()) give_up();
  }

  // The sizes that have come by now, on a stream that does not wait for the rest. A size may be on
  // its way at this moment, so a wrong one counts when it is still there the next time.
  [[gnu::cold]] void look(const awaited& mine) {
    if (mine.sizes == nullptr || !has_passed(mine.begun)) return;  // nothing is there yet
    const std::vector<std::uint64_t> before(mine.seen, mine.seen + mine.heard.size());
    copy(mine.seen, mine.sizes, mine.heard.size(), cuda_.aside);
    cuda_check(cudaStreamSynchronize(cuda_.aside), "cudaStreamSynchronize");
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before[i] == mine.seen[i] && before[i] != unknown) compare(mine.heard[i], before[i]);
  }
  void compare(const nccl_parcel& p, std::uint64_t said) const {
    if (said == p.size) return;
    throw error(text("rank ", here_.rank, " expects ", p.size, " bytes from rank ", p.peer,
                     " on lane ", lane_, ", which sends ", said,
                     ": the ranks disagree on what they exchange", errand::words()));
  }

  [[nodiscard]] int who_left(const awaited& mine) const {
    int gone = -1;
    const auto ask = [&](int peer) {
      if (peer != here_.rank && others_.has_left(peer)) gone = peer;
    };
    for (const auto parcels : {mine.heard, mine.said})
      for (const nccl_parcel& p : parcels) ask(p.peer);
    for (int peer = 0; *mine.what != '\0' && peer < here_.size; ++peer) ask(peer);
    return gone;
  }
  // "rank 1 to send 16 bytes, rank 2 to take 16 bytes on lane 0"; who has said its size has come.
  [[nodiscard, gnu::cold]] std::string missing(const awaited& mine) const {
    if (*mine.what != '\0') return text("every rank to ", mine.what, " on lane ", lane_);
    std::string all;
    const auto add = [&](const nccl_parcel& p, const char* verb) {
      all += text(all.empty() ? "" : ", ", "rank ", p.peer, verb, p.size, " bytes");
    };
    for (std::size_t i = 0; i < mine.heard.size(); ++i)
      if (mine.seen[i] == unknown) add(mine.heard[i], " to send ");
    for (const nccl_parcel& p : mine.said) add(p, " to take ");
    return text(all, " on lane ", lane_);
  }

  // Ends what is under way: when this returns, nothing more is written to anybody's memory.
  [[gnu::cold]] void abort(cudaStream_t s) noexcept {
    if (all_ != nullptr) ncclCommAbort(std::exchange(all_, nullptr));
    if (cudaEventRecord(cuda_.done, s) != cudaSuccess) return;
    const auto start = clock::now();
    while (cudaEventQuery(cuda_.done) == cudaErrorNotReady &&
           clock::now() - start < grace(deadline_))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void close() noexcept {
    if (all_ != nullptr) ncclCommAbort(std::exchange(all_, nullptr));
  }

  guest& others_;
  const standing here_;
  const int lane_, device_;
  const std::chrono::milliseconds deadline_;
  ncclComm_t all_ = nullptr;
  const cuda_handles cuda_;
  pinned_sizes sizes_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
