// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU on the host that does its work when it likes: streams are queues, run no sooner than
// somebody must wait for them or than a seed has drawn. An order that no event asks for is broken
// sooner or later: what is read too early, or overwritten before it was read, shows in the results.
//
// Memory of the host that is not pinned is read, and written, before a copy returns, as CUDA has
// it. A pool's turn to run is drawn at each piece of work, seed 0: never before it must.
//
// It records work as CUDA captures it: what CUDA would refuse meanwhile is an error here.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <cordee/device/records.hpp>

#include "tests/support/emulated.hpp"

namespace support {

class deferred {
  struct world;
  /// Work to be handed over again, and the memory that streams lent it.
  struct tape {
    std::vector<std::function<void()>> work;
    std::vector<void*> lent;
    world* in;

    explicit tape(world* where) : in(where) {}
    tape(const tape&) = delete;
    tape& operator=(const tape&) = delete;
    ~tape() {
      for (void* const memory : lent) forget(*in, memory);
    }
  };
  /// Work that was handed over, in order.
  struct queue {
    std::deque<std::function<void()>> left;
    std::size_t done = 0, all = 0;
    tape* recording = nullptr;
  };
  struct world {
    std::recursive_mutex mutex;
    std::vector<std::unique_ptr<queue>> queues;
    std::mt19937_64 random;
    bool lazy = true;
    std::size_t launches = 0, replays = 0;
    std::map<std::uintptr_t, std::size_t> known;  // memory of the device, and pinned

    explicit world(std::uint64_t seed) : random(seed), lazy(seed == 0) {}

    static void run(queue& q, std::size_t until) {
      while (q.done < until) {
        const auto work = std::move(q.left.front());
        q.left.pop_front();
        ++q.done;
        work();
      }
    }
    void give_way() {
      if (lazy) return;
      queue& q = *queues[random() % queues.size()];
      run(q, std::min(q.all, q.done + random() % 8));
    }
    void run_all() {
      for (const auto& q : queues) run(*q, q->all);
    }
    [[nodiscard]] bool pageable(const void* p) const {
      const auto at = reinterpret_cast<std::uintptr_t>(p);
      auto behind = known.upper_bound(at);
      return behind == known.begin() || (--behind, at >= behind->first + behind->second);
    }
  };

 public:
  static constexpr std::string_view name = "deferred";
  static constexpr bool host_memory = false;

  struct event {
    queue* of = nullptr;
    std::size_t place = 0;
  };
  /// Without a queue it runs at once.
  struct stream : cordee::finds_kernels {
    world* in = nullptr;
    queue* mine = nullptr;

    template <class Work>
    void hand_over(const Work& work) const {
      if (mine == nullptr) return work();
      const std::scoped_lock lock(in->mutex);
      if (mine->recording != nullptr) return mine->recording->work.emplace_back(work), void();
      mine->left.emplace_back(work);
      ++mine->all;
      in->give_way();
    }
    template <class Body>
    void launch(std::size_t blocks, const Body& body) const {
      if (in != nullptr && !records()) ++in->launches;
      hand_over([blocks, body] { emulated::stream(1).launch(blocks, body); });
    }
    [[nodiscard]] void* lend(std::size_t size) const {
      void* const memory = emulated{}.allocate(size);
      if (in != nullptr) note(*in, memory, size);
      if (!records() || size == 0) return memory;
      mine->recording->lent.push_back(memory);
      hand_over([=] { std::memset(memory, 0xff, size); });  // nothing stays from time to time
      return memory;
    }
    void take_back(void* memory) const noexcept {
      if (records()) return;
      hand_over([memory, in = in] {
        if (in == nullptr) return emulated{}.release(memory);
        forget(*in, memory);
      });
    }
    void copy(void* out, const void* in_, std::size_t size) const {
      if (size == 0) return;
      const std::scoped_lock lock(in->mutex);
      if (records() && (in->pageable(in_) || in->pageable(out)))
        throw cordee::error("a copy from or to pageable memory is recorded");
      if (in->pageable(in_)) {
        const auto* from = static_cast<const std::byte*>(in_);
        hand_over([out, kept = std::vector(from, from + size)] {
          std::memcpy(out, kept.data(), kept.size());
        });
      } else {
        hand_over([=] { std::memmove(out, in_, size); });
      }
      if (in->pageable(out)) finish();
    }
    void finish() const {
      if (mine == nullptr) return;
      if (records()) throw cordee::error("a stream that is recorded is waited for");
      const std::scoped_lock lock(in->mutex);
      world::run(*mine, mine->all);
    }
    [[nodiscard]] bool records() const { return mine != nullptr && mine->recording != nullptr; }
  };
  using recording = std::shared_ptr<const tape>;

  explicit deferred(std::uint64_t seed = 0) : world_(std::make_shared<world>(seed)) {}

  [[nodiscard]] std::size_t launches() const { return world_->launches; }
  /// Pieces of work that nobody has waited for so far.
  [[nodiscard]] std::size_t left() const {
    std::size_t n = 0;
    for (const auto& q : world_->queues) n += q->left.size();
    return n;
  }

  [[nodiscard]] stream open() const {
    const std::scoped_lock lock(world_->mutex);
    world_->queues.push_back(std::make_unique<queue>());
    stream s;
    s.in = world_.get();
    s.mine = world_->queues.back().get();
    return s;
  }
  [[nodiscard]] void* allocate(std::size_t size) const {
    void* const memory = emulated{}.allocate(size);
    note(*world_, memory, size);
    return memory;
  }
  /// Waits for all, as cudaFree does.
  void release(void* memory) const noexcept {
    if (memory == nullptr) return;
    const std::scoped_lock lock(world_->mutex);
    world_->run_all();
    world_->known.erase(reinterpret_cast<std::uintptr_t>(memory));
    emulated{}.release(memory);
  }
  [[nodiscard]] void* pin(std::size_t size) const { return allocate(size); }
  void unpin(void* memory) const noexcept { release(memory); }
  void copy(void* out, const void* in, std::size_t size, stream s) const {
    s.in = world_.get();
    s.copy(out, in, size);
  }
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0) s.hand_over([=] { std::memset(out, 0, size); });
  }
  [[nodiscard]] event record(stream s) const {
    if (s.mine == nullptr || s.records()) return {};
    const std::scoped_lock lock(world_->mutex);
    return {s.mine, s.mine->all};
  }
  void await(stream s, const event& e) const {
    if (e.of != nullptr) s.hand_over([e] { world::run(*e.of, e.place); });
  }
  void finish(stream s) const { s.finish(); }

  template <class F>
  [[nodiscard]] recording record_work(stream s, const F& f) const {
    const auto all = std::make_shared<tape>(world_.get());
    s.mine->recording = all.get();
    try {
      f();
    } catch (...) {
      s.mine->recording = nullptr;
      throw;
    }
    s.mine->recording = nullptr;
    return all;
  }
  void replay(const recording& what, stream s) const {
    ++world_->replays;
    s.hand_over([what] {
      for (const auto& work : what->work) work();
    });
  }
  /// How often something was replayed.
  [[nodiscard]] std::size_t replays() const { return world_->replays; }

 private:
  static void note(world& in, void* memory, std::size_t size) {
    const std::scoped_lock lock(in.mutex);
    if (size != 0) in.known[reinterpret_cast<std::uintptr_t>(memory)] = size;
  }
  static void forget(world& in, void* memory) {
    const std::scoped_lock lock(in.mutex);
    in.known.erase(reinterpret_cast<std::uintptr_t>(memory));
    emulated{}.release(memory);
  }

  std::shared_ptr<world> world_;
};
static_assert(cordee::Records<deferred> && cordee::GridStream<deferred::stream>);

}  // namespace support
