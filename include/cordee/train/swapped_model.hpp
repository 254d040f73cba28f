// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Models that take turns in a device's memory: teachers, the members of an ensemble, a copy of a
// run's weights.
//
//   swap_group group{device};
//   swapped_model teacher{group, "teacher", resnet<50, fp16, gpu>{device}};
//   {
//     auto resident = teacher.make_resident(s);  // weights to the device, and packed there
//     resident.load("teacher.safetensors");
//     resident.evaluate(images, normalization);
//     predict(resident, pixels, normalization);
//   }                                            // their memory and activations are freed
//
// Between scopes the weights, including running statistics, are in page-locked host memory, in the
// precision of master weights, so no bit changes. A swap uploads them; changes to them are kept
// only by adopt_weights(). On the CPU weights stay in place. swapped_trainer.hpp makes a trainer a
// member of a group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/train/input/data_description.hpp>
#include <cordee/train/measure/evaluate.hpp>
#include <cordee/train/run_operations.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// A member of a group that leaves the device when another one comes, by evict(member, the other
/// one's name), which throws where it cannot leave.
struct evictable_member {
  void* member = nullptr;
  void (*evict)(void* member, std::string_view other) = nullptr;
};

/// Which model of a group is resident.
class residency {
 public:
  /// Evicts the one that is. Throws usage_error, naming both, if it is not evictable.
  [[gnu::cold]] void acquire(std::string_view name, const evictable_member& own = {}) {
    const core::scoped_lock lock(mutex_);
    if (member_.evict != nullptr)
      member_.evict(member_.member, name);
    else if (!resident_.empty())
      throw usage_error(concat(own.evict == nullptr ? "swapped_model: \"" : "swapped_trainer: \"",
                               name, "\" cannot be ", own.evict == nullptr ? "resident" : "used",
                               " while \"", resident_, "\" is",
                               own.evict == nullptr ? "" : " resident", ": end that scope first"));
    resident_ = name;
    member_ = own;
  }
  /// Unless another one is resident now.
  [[gnu::cold]] void release(const void* member = nullptr) noexcept {
    const core::scoped_lock lock(mutex_);
    if (member_.member != member) return;
    resident_.clear();
    member_ = {};
  }
  [[nodiscard]] std::string name() const {
    const core::scoped_lock lock(mutex_);
    return resident_;
  }

 private:
  mutable core::mutex mutex_;
  std::string resident_;
  evictable_member member_;  // the resident one, if it is evictable
};

/// Numbers in the host's memory, page-locked where the device has copies.
template <class Real, class D>
struct swapped_plane {
  using type = device::pinned<Real, D>;
};
template <class Real>
struct swapped_plane<Real, cpu> {
  using type = buffer<Real, cpu>;
};

template <class S>
class resident_model;

}  // namespace detail::train

template <class Run>
class swapped_trainer;

/// Models of which at most one at a time is in device memory. The group must outlive them.
template <Device D>
class swap_group {
 public:
  explicit swap_group(const D& device) : device_(device) {}      ///< For models on this device.
  [[nodiscard]] const D& get_device() const { return device_; }  ///< The device.
  /// Name of the resident model; empty if there is none.
  [[nodiscard]] std::string resident() const { return residency_.name(); }

 private:
  template <class S>
  friend class detail::train::resident_model;
  template <class Run>
  friend class swapped_trainer;
  D device_;
  detail::train::residency residency_;
};

/// A model whose weights are in host memory, and on the device within the scope of make_resident.
template <Model M>
class swapped_model {
  static_assert(
      !requires(const M& m) { m.describe_offload(); },
      "swapped_model: the network's weights are on the device by block: use a network "
      "without offload_weights, or that one without swapped_model");

 public:
  using model_type = M;                        ///< The model.
  using device = typename M::device;           ///< Where it computes.
  using Real = typename M::precision::master;  ///< Type of its weights.

  /// Owns the model, whose initial weights are drawn from `seed`. @throws usage_error without a
  /// name.
  swapped_model(swap_group<device>& group, std::string name, M model, std::uint64_t seed = 0)
      : group_(group),
        name_(std::move(name)),
        model_(std::move(model)),
        seed_(seed),
        plane_size_(arena<Real, device>::size_of_plane(model_.segments())),
        plane_(group.get_device(), plane_size_) {
    expects(!name_.empty(), "swapped_model: give the model a name for messages");
  }
  swapped_model(const swapped_model&) = delete;
  swapped_model& operator=(const swapped_model&) = delete;

  /// While the returned object exists, the model is on the device; work is submitted to `s`.
  /// @throws usage_error that names both models while another model of the group, or this one, is
  /// resident.
  [[nodiscard]] auto make_resident(typename device::stream s) {
    return detail::train::resident_model<swapped_model>(*this, s);
  }
  /// The model, whose members may change.
  [[nodiscard]] M& model() { return model_; }
  [[nodiscard]] const std::string& name() const { return name_; }  ///< As given.
  /// Bytes of weights in host memory, which a swap uploads to a GPU.
  [[nodiscard]] std::size_t swapped_bytes() const { return plane_size_ * sizeof(Real); }
  /// Device memory while the model is resident, without activations, in bytes.
  [[nodiscard]] std::size_t resident_bytes() const {
    std::size_t packed = 0;
    if constexpr (requires { model_.packed_bytes(); }) packed = model_.packed_bytes();
    return swapped_bytes() + packed;
  }
  /// One line for logs: what is held, and what a swap copies.
  [[nodiscard]] std::string describe() const {
    using detail::core::grouped;
    if constexpr (device::host_memory)
      return concat("\"", name_, "\": ", grouped(swapped_bytes()),
                    " bytes of weights stay in the host's memory; ", grouped(resident_bytes()),
                    " with the packed ones while it is resident");
    else
      return concat("\"", name_, "\": ", grouped(swapped_bytes()),
                    " bytes of page-locked host memory; ", grouped(resident_bytes()),
                    " bytes of the device beside activations while it is resident; a swap uploads ",
                    grouped(swapped_bytes()),
                    " bytes and frees the others, adopt_weights() "
                    "downloads as many");
  }

 private:
  template <class S>
  friend class detail::train::resident_model;
  swap_group<device>& group_;
  std::string name_;
  M model_;
  std::uint64_t seed_;
  std::size_t plane_size_;
  typename detail::train::swapped_plane<Real, device>::type plane_;
  bool has_weights_ = false;
  struct {
    detail::train::data_description data;
  } fit_state_;
};

namespace detail::train {

/// The scope of swapped_model::make_resident: what evaluate, predict, save and load need of a run.
template <class S>
class resident_model {
 public:
  using model_type = typename S::model_type;
  using device = typename S::device;
  using Real = typename S::Real;
  static constexpr bool weights_differ = false;

  [[gnu::cold]] resident_model(S& of, typename device::stream s)
      : turn_(of.group_.residency_, of.name_),
        of_(of),
        stream_(s),
        plane_(of.group_.get_device(), device::host_memory ? 0 : of.plane_size_),
        packed_(of.model_.make_packed_parameters()) {
    if (!of.has_weights_) {
      model().initialize(weights(), of.seed_);
      adopt_weights();
      of.has_weights_ = true;
      return;
    }
    if constexpr (!device::host_memory)
      get_device().copy(weights().data, host_plane(), of.swapped_bytes(), s);
    model().pack_parameters(weights(), packed_, s);
  }
  resident_model(const resident_model&) = delete;
  resident_model& operator=(const resident_model&) = delete;
  ~resident_model() {
    if constexpr (requires { model().release_activations(); }) model().release_activations();
  }

  /// What was written to the weights takes effect, here and in the host's memory. Blocks the host.
  void adopt_weights() {
    if constexpr (!device::host_memory) {
      get_device().copy(host_plane(), weights().data, of_.swapped_bytes(), stream_);
      get_device().finish(stream_);
    }
    model().pack_parameters(weights(), packed_, stream_);
  }
  /// The weights of another plane of the same network, as that of a trainer. Blocks the host.
  void adopt_weights(span_on<const Real, device> others) {
    expects(others.size == weights().size, "swapped_model: the plane is of another network");
    get_device().copy(weights().data, others.data, of_.swapped_bytes(), stream_);
    adopt_weights();
  }

  /// The weights of a run that is out of the device for this model (swapped_trainer.hpp), as it was
  /// trained. Blocks the host. @throws usage_error for a run of another network, or one whose
  /// weights are on the device.
  template <class Run>
  void adopt_weights(const swapped_trainer<Run>& run) {
    const std::span<const Real> kept = run.weights();
    expects(kept.size() == weights().size, "swapped_model: the run is of another network");
    get_device().copy(weights().data, kept.data(), of_.swapped_bytes(), stream_);
    adopt_weights();
  }

  [[nodiscard]] model_type& model() { return of_.model_; }
  [[nodiscard]] std::span<const segment> segments() const { return of_.model_.segments(); }
  /// Writes take effect at adopt_weights.
  [[nodiscard]] span_on<Real, device> weights() {
    if constexpr (device::host_memory)
      return of_.plane_.span();
    else
      return plane_.span();
  }
  [[nodiscard]] auto& packed_parameters() { return packed_; }
  [[nodiscard]] typename device::stream compute() const { return stream_; }
  [[nodiscard]] static self_comm comm() { return {}; }
  [[nodiscard]] auto& fit_state() { return of_.fit_state_; }
  template <class F>
  auto abort_peers_on_throw(const F& f) {
    return f();
  }
  template <class F>
  auto with_mean_model(const F& f) {
    return f();
  }

  /// As the trainer's.
  template <Dataset Data>
  metrics evaluate(const Data& images, const normalization& norm, int batch_size = 250,
                   int decode_threads = 0) {
    return train::evaluate(*this, images, norm, batch_size, decode_threads);
  }
  /// As the trainer's.
  void save(const std::string& path) {
    static_assert(
        requires(resident_model& r) { save_weights(r, path); },
        "save: include <cordee/train/weights.hpp>, as the umbrella does");
    save_weights(*this, path);
  }
  /// As the trainer's.
  std::vector<std::string> load(const std::string& path, load_options options = {}) {
    static_assert(
        requires(resident_model& r) { load_weights(r, path, options); },
        "load: include <cordee/train/weights.hpp>, as the umbrella does");
    return load_weights(*this, path, options);
  }

 private:
  struct turn {
    residency& of;
    turn(residency& all, std::string_view name) : of(all) { of.acquire(name); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn() { of.release(); }
  };

  [[nodiscard]] const device& get_device() const { return of_.group_.get_device(); }
  [[nodiscard]] Real* host_plane() { return of_.plane_.span().data(); }

  turn turn_;  // first: it is left when the memory has been freed
  S& of_;
  typename device::stream stream_;
  buffer<Real, device> plane_;
  typename model_type::packed_parameters packed_;
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
