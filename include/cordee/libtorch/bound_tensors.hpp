// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a LibTorch module bound to the planes of an arena: values are views of the weight
// plane; gradients are copied to theirs once, when complete, and are then views, or stay where
// LibTorch made them if the trainer lends (train/step/lent_gradients.hpp). Tensors of another
// number type, or not contiguous, are copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/variable.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/libtorch/module_tensors.hpp>
#include <cordee/libtorch/tensor_device.hpp>
#include <cordee/nn/parameter_list.hpp>

namespace cordee::inline CORDEE_ABI::detail::libtorch {

/// The tensors of a module, bound to the planes of an arena. Addresses stay as long as it lives.
template <class Real, class D = cpu>
class bound_tensors {
 public:
  struct entry : module_tensor {
    bool is_view = true;     // of the arena; else copied
    void* data = nullptr;    // where the tensor's numbers are to be
    std::size_t offset = 0;  // in the planes
    decltype(torch::autograd::impl::grad_accumulator(torch::Tensor())) node{};  // its owner's
  };

  /// `kinds`: those of tensors by name, in place of what the module says.
  bound_tensors(std::vector<module_tensor> all,
                const std::vector<std::pair<std::string, kind>>& kinds,
                torch::Device place = torch::kCPU) {
    for (module_tensor& t : all) {
      expect_place(t.name, t.tensor.device(), place);
      // Module::to(type) converts the counters of batch norm as well; Python's does not.
      if (!t.is_parameter && t.name.ends_with("num_batches_tracked"))
        t.tensor.set_data(t.tensor.to(torch::kLong));
      for (const auto& [name, own] : kinds)
        if (name == t.name) t.kind = own;
      if (t.is_parameter ? !t.tensor.requires_grad() : !t.tensor.is_floating_point()) {
        t.other_names.insert(t.other_names.begin(), t.name);
        constants_.push_back(std::move(t));
        continue;
      }
      if (!t.is_parameter) t.kind = kind::statistic;
      list_.add(t.name, t.tensor.sizes(), t.kind);
      entry e{{std::move(t)}};
      e.is_view =
          e.tensor.scalar_type() == real_type && e.tensor.is_contiguous() && !e.tensor.is_sparse();
      e.data = e.tensor.data_ptr();
      entries_.push_back(std::move(e));
    }
    for (const auto& [name, own] : kinds) (void)list_.index(name);  // throws
    if (trainable() == 0)
      throw usage_error("torch_model: the module has no parameter that requires a gradient");
    // In the table's order, which has the statistics last.
    std::stable_partition(entries_.begin(), entries_.end(),
                          [](const entry& e) { return e.kind != kind::statistic; });
    for (std::size_t k = 0; k < entries_.size(); ++k)
      entries_[k].offset = list_.segments()[k].offset;
  }

  [[nodiscard]] const parameter_list& list() const { return list_; }
  [[nodiscard]] std::vector<entry>& entries() { return entries_; }
  [[nodiscard]] std::size_t trainable() const { return core::count_trainable(list_.segments()); }
  /// Tensors that are neither trained nor statistics: frozen parameters, counters.
  [[nodiscard]] std::vector<module_tensor>& constants() { return constants_; }

  /// The numbers of an entry in a plane, as a tensor of its shape.
  [[nodiscard]] torch::Tensor in_plane(Real* plane, const entry& e) const {
    return torch::from_blob(plane + e.offset, e.tensor.sizes(),
                            e.tensor.options().dtype(real_type).requires_grad(false));
  }
  /// Copies the module's values to a plane.
  void store(Real* plane, bool statistics_alone) const {
    const torch::NoGradGuard no_grad;
    for (const entry& e : entries_)
      if (!statistics_alone || e.kind == kind::statistic)
        if (e.tensor.data_ptr() != static_cast<void*>(plane + e.offset))
          in_plane(plane, e).copy_(e.tensor);
  }
  /// From now on the module reads this plane; copies get its values.
  void bind_values(Real* plane) {
    const torch::NoGradGuard no_grad;
    expect_in_place();
    for (entry& e : entries_) {
      if (!e.is_view) {
        e.tensor.copy_(in_plane(plane, e));
      } else if (e.data != plane + e.offset) {
        e.tensor.set_data(in_plane(plane, e));
        e.data = plane + e.offset;
      }
    }
  }
  /// From now on backward adds to this plane; gradients that are copied begin undefined. Where the
  /// plane is overwritten all are: LibTorch then takes a product's memory as the gradient, and one
  /// copy of it costs less than zeros and an addition.
  void bind_gradients(device::plane_part<Real, D> plane, write_mode mode) {
    plane_ = plane;
    mode_ = mode;
    for (std::size_t k = 0; k < trainable(); ++k) {
      entry& e = entries_[k];
      auto& gradient = e.tensor.mutable_grad();
      if (!e.is_view || mode == write_mode::overwrite || !plane.has(list_.segments()[k]))
        gradient.reset();
      else
        gradient = in_plane(plane.origin(), e);
    }
  }
  /// Whether store_gradient may leave a gradient where LibTorch has made it, until the next call.
  void lend_gradients(bool may) { lends_ = may; }
  /// Where the gradient of tensor k is, if that is lent; null: in the plane.
  [[nodiscard]] Real* lent_gradient(std::size_t k) {
    const entry& e = entries_[k];
    const auto& gradient = e.tensor.grad();
    const bool lent = lends_ && e.is_view && gradient.defined() &&
                      gradient.data_ptr() != static_cast<void*>(plane_.origin() + e.offset);
    return lent ? gradient.template data_ptr<Real>() : nullptr;
  }
  /// Copies lent gradients to the plane.
  void return_gradients() {
    if (std::exchange(lends_, false))
      for (std::size_t k = 0; k < trainable(); ++k) store_gradient(k);
  }
  /// The gradient of tensor k is complete: in the plane, or lent.
  void store_gradient(std::size_t k) {
    entry& e = entries_[k];
    if (!plane_.has(list_.segments()[k])) return;
    const torch::NoGradGuard no_grad;
    auto& gradient = e.tensor.mutable_grad();
    if (lends_ && mode_ == write_mode::overwrite && e.is_view && can_be_lent(gradient)) return;
    torch::Tensor to = in_plane(plane_.origin(), e);
    if (mode_ == write_mode::overwrite)
      gradient.defined() ? to.copy_(gradient) : to.zero_();
    else if (!e.is_view && gradient.defined())
      to.add_(gradient);
    if (e.is_view)
      gradient = std::move(to);
    else
      gradient.reset();
  }
  /// Throws usage_error if somebody has moved or replaced a tensor of the module.
  void expect_in_place() const {
    for (const entry& e : entries_)
      if (e.tensor.data_ptr() != e.data && e.tensor.numel() > 0)
        throw usage_error(
            concat("torch_model: the numbers of \"", e.name,
                   "\" were moved or replaced while a trainer has them: call to(), half() "
                   "and set_data before the model is made, and load weights by "
                   "trainer::load"));
  }

 private:
  static constexpr torch::ScalarType real_type =
      std::is_same_v<Real, double> ? torch::kDouble : torch::kFloat;

  // Kernels of the planes count on their alignment.
  static bool can_be_lent(const torch::Tensor& gradient) {
    return gradient.defined() && gradient.scalar_type() == real_type && gradient.is_contiguous() &&
           reinterpret_cast<std::uintptr_t>(gradient.data_ptr()) % 64 == 0;
  }

  std::vector<entry> entries_;
  std::vector<module_tensor> constants_;
  parameter_list list_;
  // Of the running pass:
  device::plane_part<Real, D> plane_{span_on<Real, D>{}};
  write_mode mode_ = write_mode::add;
  bool lends_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
