// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Each kind of policy with one optional member that has another signature than its table says, or a
// likely misspelling.
#include <cordee/comm/reducers/reducer_check.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/optimizer_check.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/callbacks/callback_check.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"

using namespace cordee;

#if defined(OPTIMIZER_FINAL_WITHOUT_EAGER)
struct own_optimizer final : sgd {
  template <class V, class S>
  auto propose(const V& v, const step_info&, S) const {
    return v.weights;
  }
#else
struct own_optimizer : sgd {
#endif
#if defined(OPTIMIZER_PROPOSES)
  template <class V, class S>
  auto proposes(const V& v, const step_info&, S) const {
    return v.grads;
  }
#elif defined(OPTIMIZER_PROPOSE_WITHOUT_STEP)
  template <class V, class S>
  auto propose(const V& v, S) const {
    return v.grads;
  }
#elif defined(OPTIMIZER_IS_EAGER)
static constexpr bool is_eager = false;
#elif defined(OPTIMIZER_EAGER_FUNCTION)
bool eager() const { return false; }
#elif defined(OPTIMIZER_NORM)
static constexpr norms_needed norm = norms_needed::before_accept;
#elif defined(OPTIMIZER_NORMS_OF_A_BOOL)
static constexpr bool norms = true;
#elif defined(OPTIMIZER_INITIALISE)
template <class V, class S>
void initialise(const V&, S) const {}
#elif defined(OPTIMIZER_CHECK_SEGMENT)
void check_segment(std::span<const segment>) const {}
#elif defined(OPTIMIZER_AVERAGE_SLOTS)
static constexpr int average_slots = 1;
#elif defined(OPTIMIZER_HAS_PRECONDITION)
static constexpr bool has_precondition = true;
#elif defined(OPTIMIZER_INITIALIZE_WITHOUT_STREAM)
template <class V>
void initialize(const V&) const {}
#elif defined(OPTIMIZER_CHECK_SEGMENTS_OF_A_NUMBER)
void check_segments(int) const {}
#elif defined(OPTIMIZER_AVERAGE_SLOT_OF_AN_OBJECT)
int average_slot = 1;
#elif defined(OPTIMIZER_CAPTURABLE_FUNCTION)
bool capturable() const { return true; }
#elif defined(OPTIMIZER_DIRECTION_WITHOUT_STEP)
template <class V, class S>
void write_direction(const V&, S) const {}
#endif
};
static_assert(detail::optim::has_optimizer_members<own_optimizer, float, cpu>());

struct own_reducer : reducer_base<self_comm> {
  static constexpr agreement offers = agreement::exact;
  template <class Real>
  std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {}
#if defined(REDUCER_CAPTUREABLE)
  static constexpr bool captureable = true;
#elif defined(REDUCER_RESIDUAL_SLOT)
  static constexpr bool residual_slot = true;
#elif defined(REDUCER_DESCRIPTION)
  std::string description() const { return {}; }
#elif defined(REDUCER_DESCRIBE_RETURNS_VOID)
  void describe() const {}
#elif defined(REDUCER_SPECTRALRADIUS)
  double spectralradius(momentum_form) const { return 1; }
#endif
};
static_assert(detail::comm::has_reducer_members<own_reducer, float, cpu>());

struct own_schedule {
  double operator()(double) const { return 0.1; }
#if defined(SCHEDULE_NEED_VALIDATION)
  static constexpr bool need_validation = true;
#elif defined(SCHEDULE_STATES)
  std::span<double> states() { return {}; }
#elif defined(SCHEDULE_OBSERVED)
  void observed(const observation&) {}
#elif defined(SCHEDULE_BATCH_DECIDED_IS_A_NUMBER)
  void observe(const observation&) {}
  int batch_decided() const { return 64; }
#elif defined(SCHEDULE_NEEDS_VALIDATION_FUNCTION)
  bool needs_validation() const { return true; }
#endif
};
static_assert(detail::schedule::has_schedule_members<own_schedule>());

struct own_callback {
  void begin(const run_plan&) {}
#if defined(CALLBACK_STEPS)
  void steps(const step_record&) {}
#elif defined(CALLBACK_ON_EPOCH)
  void on_epoch(const epoch_record&) {}
#elif defined(CALLBACK_BEGIN_ON_ALL_RANK)
  template <class Run>
  void begin_on_all_rank(Run&, double) {}
#elif defined(CALLBACK_BEGIN_ON_ALL_RANKS_WITHOUT_EPOCH)
  template <class Run>
  void begin_on_all_ranks(Run&) {}
#elif defined(CALLBACK_STEP_ON_ALL_RANKS_RETURNS_VOID)
  template <class Run>
  void step_on_all_ranks(Run&, double) {}
#endif
};
static_assert(detail::train::has_callback_members<own_callback, int>());

struct with_target : support::toy_data {  // beside the right name no misspelling
  int label(std::size_t) const { return 0; }
  int target(std::size_t i) const { return label(i); }
};
static_assert(detail::data::has_dataset_members<with_target>());
struct own_data : support::toy_data {
#if defined(DATA_LABELS)
  int labels(std::size_t) const { return 0; }
#elif defined(DATA_LABEL_WITHOUT_NUMBER)
  int label() const { return 0; }
#elif defined(DATA_CLASS_NAMES_OF_NUMBERS)
  std::vector<int> class_names() const { return {}; }
#elif defined(DATA_ORDER_OF_SIGNED)
  std::vector<int> order(std::uint64_t, std::int64_t) const { return {}; }
#endif
};
static_assert(detail::data::has_dataset_members<own_data>());

struct own_augmentation {
  bool active() const { return false; }
#if defined(AUGMENTATION_DESCRIPTION)
  std::string description() const { return {}; }
#elif defined(AUGMENTATION_DESCRIBE_RETURNS_A_NUMBER)
  int describe() const { return 0; }
#elif defined(AUGMENTATION_SUB_SEQUENCE)
  static constexpr std::uint32_t sub_sequence = 4;
#endif
};
static_assert(detail::data::has_augmentation_members<own_augmentation>());
