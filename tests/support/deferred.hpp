// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU on the host that does its work when it likes: streams are queues, run no sooner than
// somebody must wait for them or than a seed has drawn. An order that no event asks for is broken
// sooner or later: what is read too early, or overwritten before it was read, shows in the results.
//
// Memory of the host that is not pinned is read, and written, before a copy returns, as CUDA has
// it. A pool's turn to run is drawn at each piece of work, seed 0: never before it must.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/emulated.hpp"

namespace support {

class deferred {
  /// Work that was handed over, in order.
  struct queue {
    std::deque<std::function<void()>> left;
    std::size_t done = 0, all = 0;
  };
  struct world {
    std::recursive_mutex mutex;
    std::vector<std::unique_ptr<queue>> queues;
    std::mt19937_64 random;
    bool lazy = true;
    std::size_t launches = 0;
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
      mine->left.emplace_back(work);
      ++mine->all;
      in->give_way();
    }
    template <class Body>
    void launch(std::size_t blocks, const Body& body) const {
      if (in != nullptr) ++in->launches;
      hand_over([blocks, body] { emulated::stream(1).launch(blocks, body); });
    }
    [[nodiscard]] void* lend(std::size_t size) const {
      void* const memory = emulated{}.allocate(size);
      if (in != nullptr) note(*in, memory, size);
      return memory;
    }
    void take_back(void* memory) const noexcept {
      hand_over([memory, in = in] {
        if (in != nullptr) in->known.erase(reinterpret_cast<std::uintptr_t>(memory));
        emulated{}.release(memory);
      });
    }
    void copy(void* out, const void* in_, std::size_t size) const {
      if (size == 0) return;
      const std::scoped_lock lock(in->mutex);
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
      const std::scoped_lock lock(in->mutex);
      world::run(*mine, mine->all);
    }
  };

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
    if (s.mine == nullptr) return {};
    const std::scoped_lock lock(world_->mutex);
    return {s.mine, s.mine->all};
  }
  void await(stream s, const event& e) const {
    if (e.of != nullptr) s.hand_over([e] { world::run(*e.of, e.place); });
  }
  void finish(stream s) const { s.finish(); }

 private:
  static void note(world& in, void* memory, std::size_t size) {
    const std::scoped_lock lock(in.mutex);
    if (size != 0) in.known[reinterpret_cast<std::uintptr_t>(memory)] = size;
  }

  std::shared_ptr<world> world_;
};
static_assert(cordee::Device<deferred> && cordee::GridStream<deferred::stream>);

}  // namespace support
