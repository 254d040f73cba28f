// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A module of LibTorch as a model that a trainer trains, over any optimizer, reducer and transport.
//
//   auto net = std::make_shared<Net>();
//   torch_model model{net, [](Net& n, const auto& b) {
//     return torch::cross_entropy_loss(n.forward(b.data), b.target);
//   }};
//   trainer run{model, lars{}, schedule, ring{comm}};
//   for (auto& b : *loader) run.step(b, b.data.size(0), epoch);
//
// The function returns the mean loss over the samples of its batch; the trainer weights it, so that
// the gradient is that of the mean over all ranks' samples. Parameters become views of the
// run's arena. A gradient is copied there once, when backward has completed it, which a hook behind
// each AccumulateGrad node reports, and is a view then, to which further micro-batches add; its
// bucket is exchanged meanwhile. Parameters that cannot be views, of another number type or not
// contiguous, are copied each way a step.
//
// A backward of the function's own, of an auxiliary loss, adds to the gradients as it is: right for
// equal shares of the samples and a loss that is not scaled. A sum of losses is right always.
//
// A replica of the module belongs to one rank, and one trainer. It must not be moved to another
// device or number type, nor its tensors be replaced, while the trainer lives; that is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cordee/libtorch/module_tensors.hpp>
#include <cordee/libtorch/tensor_bytes.hpp>
#include <cordee/nn/custom_model.hpp>

namespace cordee::inline CORDEE_ABI {

/// What a parameter that the loss does not depend on means.
enum class unused_parameters {
  refuse,  ///< An error that names them.
  zero     ///< Their gradient is zero, on all ranks alike.
};

/// Options of a torch_model.
struct torch_model_options {
  /// Parameters that a batch's loss does not depend on. Default: most are mistakes.
  unused_parameters unused = unused_parameters::refuse;
  /// Kinds of tensors by name, where the module that owns one does not tell: of norms of your own.
  std::vector<std::pair<std::string, kind>> kinds{};
};

namespace detail::libtorch {

/// The tensors of a module, bound to the planes of an arena. Addresses stay as long as it lives.
template <class Real>
class bound_tensors {
 public:
  struct entry : module_tensor {
    bool is_view = true;     // of the arena; else copied
    void* data = nullptr;    // where the tensor's numbers are to be
    std::size_t offset = 0;  // in the planes
  };
  using accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));

  bound_tensors(std::vector<module_tensor> all, const torch_model_options& options) {
    for (module_tensor& t : all) {
      for (const auto& [name, own] : options.kinds)
        if (name == t.name) t.kind = own;
      if (t.is_parameter ? t.tensor.requires_grad() : t.tensor.is_floating_point()) {
        entry e{{std::move(t)}};
        e.is_view = e.tensor.scalar_type() == real_type && e.tensor.is_contiguous() &&
                    !e.tensor.is_sparse();
        e.data = e.tensor.data_ptr();
        list_.add(e.name,
                  std::span<const std::int64_t>(e.tensor.sizes().data(), e.tensor.sizes().size()),
                  e.is_parameter ? e.kind : kind::statistic);
        entries_.push_back(std::move(e));
      } else {
        constants_.push_back(std::move(t));
      }
    }
    for (const auto& [name, own] : options.kinds) expect_known(name);
    if (list_.segments().empty() || list_.segments()[0].kind == kind::statistic)
      throw usage_error("torch_model: the module has no parameter that requires a gradient");
    // In the table's order, which has the statistics last.
    std::vector<entry> ordered(entries_.size());
    for (entry& e : entries_) ordered[list_.index(e.name)] = std::move(e);
    entries_ = std::move(ordered);
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
    for (entry& e : entries_) {
      if (!e.is_view) {
        e.tensor.copy_(in_plane(plane, e));
      } else if (e.data != plane + e.offset) {
        expect_in_place(e);
        e.tensor.set_data(in_plane(plane, e));
        e.data = plane + e.offset;
      }
    }
  }
  /// From now on backward adds to this plane; gradients that are copied begin undefined. Where the
  /// plane is overwritten all are: LibTorch then takes a product's memory as the gradient, and one
  /// copy of it costs less than zeros and an addition.
  void bind_gradients(device::plane_part<Real, cpu> plane, write_mode mode) {
    for (std::size_t k = 0; k < trainable(); ++k) {
      entry& e = entries_[k];
      auto& gradient = e.tensor.mutable_grad();
      Real* const at = plane.origin() + e.offset;
      if (!e.is_view || mode == write_mode::overwrite || !plane.has(list_.segments()[k]))
        gradient.reset();
      else if (!gradient.defined() || gradient.data_ptr() != static_cast<void*>(at))
        gradient = in_plane(plane.origin(), e);
    }
  }
  /// The plane has the gradient of tensor k, complete.
  void store_gradient(std::size_t k, device::plane_part<Real, cpu> plane, write_mode mode) {
    entry& e = entries_[k];
    if (!plane.has(list_.segments()[k])) return;
    const torch::NoGradGuard no_grad;
    auto& gradient = e.tensor.mutable_grad();
    torch::Tensor to = in_plane(plane.origin(), e);
    if (mode == write_mode::overwrite)
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
    for (const entry& e : entries_) expect_in_place(e);
  }

 private:
  static constexpr torch::ScalarType real_type =
      std::is_same_v<Real, double> ? torch::kDouble : torch::kFloat;

  static void expect_in_place(const entry& e) {
    if (e.tensor.data_ptr() == e.data || e.tensor.numel() == 0) return;
    throw usage_error(
        concat("torch_model: the numbers of \"", e.name,
               "\" were moved or replaced while a trainer has them: call to(), half() "
               "and set_data before the model is made, and load weights by "
               "trainer::load"));
  }
  void expect_known(const std::string& name) const {
    for (const entry& e : entries_)
      if (e.name == name) return;
    (void)list_.index(name);  // throws
  }

  std::vector<entry> entries_;
  std::vector<module_tensor> constants_;
  parameter_list list_;
};

}  // namespace detail::libtorch

/// A module with its loss. Data is what a batch of the loader is: of torch::data, an Example of
/// stacked tensors. P states the arena's numbers: fp32, fp64 for modules of double; fp16 or bf16
/// for modules of half and bfloat16, whose masters are then float.
template <class Data = torch::data::Example<>, class P = fp32, class D = cpu>
class torch_model : public custom_model<Data, P, D> {
  static_assert(D::host_memory, "torch_model is for CPU tensors in this version");
  using base = custom_model<Data, P, D>;
  using Real = typename P::master;

  struct state {
    detail::libtorch::bound_tensors<Real> tensors;
    std::function<torch::Tensor(const Data&)> loss;
    std::function<void(bool)> set_training;
    torch_model_options options;
    std::vector<typename detail::libtorch::bound_tensors<Real>::accumulator> accumulators{};

    // Of the pass that is running; hooks of a GPU's tensors run on other threads.
    std::mutex mutex{};
    typename base::pass* pass = nullptr;
    std::vector<std::uint8_t> done{};
    detail::device::plane_part<Real, D> gradients{span_on<Real, D>{}};
    write_mode mode = write_mode::add;

    state(std::vector<detail::libtorch::module_tensor> all, torch_model_options o)
        : tensors(std::move(all), o), options(std::move(o)) {}

    void set_ready(std::size_t k) {
      const std::lock_guard lock(mutex);
      if (pass == nullptr || done[k] != 0) return;
      done[k] = 1;
      tensors.store_gradient(k, gradients, mode);
      pass->ready(k);
    }
  };

 public:
  using packed_parameters = typename base::packed_parameters;  ///< See Model.
  using stream = typename base::stream;                        ///< See Model.

  /// See Model: backward writes every gradient of a step's first micro-batch.
  static constexpr bool overwrites_gradients = true;

  /// loss(*module, batch) is the mean loss over the batch's samples, a tensor of one number.
  /// Module is a torch::nn::Module or a torch::jit::Module. @throws usage_error for one without
  /// parameters to train, and for an option that names no tensor.
  template <class Module, class F>
    requires std::is_invocable_r_v<torch::Tensor, F&, Module&, const Data&>
  torch_model(std::shared_ptr<Module> module, F loss, torch_model_options options = {})
      : torch_model(make_state(module, std::move(loss), std::move(options))) {}

  /// Copies the module's values, of which rank 0's become those of all ranks.
  void initialize(span_on<Real, D> plane, std::uint64_t) const {
    state_->tensors.store(plane.data, false);
  }
  /// The module reads `plane` from now on.
  void pack_parameters(span_on<const Real, D> plane, packed_parameters& to, stream s) const {
    base::pack_parameters(plane, to, s);
    state_->tensors.bind_values(to.data);
  }
  /// See Model.
  void backward(const packed_parameters& values, detail::device::plane_part<Real, D> gradients,
                write_mode mode, const std::function<void(std::size_t)>& ready, stream s) {
    state_->gradients = gradients;
    state_->mode = mode;
    base::backward(values, gradients, write_mode::add, ready, s);
    state_->tensors.store(values.data, true);
  }
  /// See Model: backward leaves out what is frozen.
  void freeze(std::span<const std::uint8_t> flags) {
    base::freeze(flags);
    for (std::size_t k = 0; k < state_->tensors.trainable(); ++k)
      state_->tensors.entries()[k].tensor.requires_grad_(flags.empty() || flags[k] == 0);
  }
  /// Frozen parameters, buffers of integers and second names of shared tensors, for files of
  /// weights; valid until the next call.
  [[nodiscard]] std::vector<detail::io::tensor_view> constants() const {
    std::vector<detail::io::tensor_view> all;
    copies_.clear();
    const auto add = [&](const std::string& name, const torch::Tensor& t) {
      copies_.push_back(t.detach().contiguous());
      all.push_back(detail::libtorch::view_of(name, copies_.back()));
    };
    for (const auto& c : state_->tensors.constants()) {
      add(c.name, c.tensor);
      for (const std::string& name : c.other_names) add(name, c.tensor);
    }
    for (const auto& e : state_->tensors.entries())
      for (const std::string& name : e.other_names) add(name, e.tensor);
    return all;
  }
  /// Takes the values of those that the file has. @throws error for one of another number type or
  /// shape.
  void set_constants(const detail::io::tensor_file& file) {
    for (auto& c : state_->tensors.constants()) detail::libtorch::read(file, c.name, c.tensor);
  }
  /// Their bytes, of which rank 0's become those of all ranks. They are not exchanged later.
  [[nodiscard]] std::vector<span_on<std::byte, cpu>> constant_bytes() const {
    std::vector<span_on<std::byte, cpu>> all;
    for (auto& c : state_->tensors.constants())
      if (c.tensor.is_contiguous())
        all.push_back({static_cast<std::byte*>(c.tensor.data_ptr()), c.tensor.nbytes()});
    return all;
  }
  /// Where weights and gradients lie, for logs.
  [[nodiscard]] std::string describe_parameters() const {
    std::size_t bytes = 0;
    for (const auto& e : state_->tensors.entries())
      if (!e.is_view) bytes += static_cast<std::size_t>(e.tensor.numel()) * sizeof(Real);
    constexpr std::string_view views =
        "parameters of the module are views of the arena, gradients once they are complete";
    return bytes == 0 ? std::string(views)
                      : concat(views, ", but for ", detail::core::grouped(bytes),
                               " bytes, which are copied each way");
  }

 private:
  explicit torch_model(std::shared_ptr<state> s)
      : base(s->tensors.list(),
             [s](const Data& data, typename base::pass& pass) { return run(*s, data, pass); }),
        state_(std::move(s)) {}

  template <class Module, class F>
  static std::shared_ptr<state> make_state(const std::shared_ptr<Module>& module, F loss,
                                           torch_model_options options) {
    expects(module != nullptr, "torch_model: the module is null");
    auto s = std::make_shared<state>(detail::libtorch::tensors_of(*module), std::move(options));
    s->loss = [module, loss = std::move(loss)](const Data& data) mutable {
      return loss(*module, data);
    };
    s->set_training = [module](bool on) { module->train(on); };
    for (std::size_t k = 0; k < s->tensors.trainable(); ++k) {
      auto node = torch::autograd::impl::grad_accumulator(s->tensors.entries()[k].tensor);
      node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [weak = std::weak_ptr<state>(s), k](const auto& outputs, const auto&) {
            if (const auto own = weak.lock()) own->set_ready(k);
            return outputs;
          }));
      s->accumulators.push_back(std::move(node));
    }
    return s;
  }

  static metrics run(state& s, const Data& data, typename base::pass& pass) {
    s.tensors.expect_in_place();
    s.set_training(pass.trains());
    const torch::AutoGradMode mode(pass.trains());
    const auto count = static_cast<double>(pass.update().count);
    if (pass.trains()) s.tensors.bind_gradients(s.gradients, s.mode);
    torch::Tensor loss = s.loss(data);
    if (!loss.defined() || loss.numel() != 1)
      throw usage_error(
          concat("torch_model: the function returns the mean loss of the batch, one "
                 "number; it returned ",
                 loss.defined() ? concat(loss.numel(), " numbers") : "no tensor"));
    if (pass.trains()) {
      {
        const std::lock_guard lock(s.mutex);
        s.done.assign(s.tensors.trainable(), 0);
        s.pass = &pass;
      }
      const ended_pass end{s};
      if (loss.requires_grad()) {  // in the master's type: a scaled loss may be beyond half's range
        loss = loss.to(std::is_same_v<Real, double> ? torch::kDouble : torch::kFloat);
        loss.backward(torch::full_like(loss, count * pass.loss_weight()));
      }
      set_unused_ready(s, pass);
    }
    return {.loss = loss.template item<double>() * count, .count = pass.update().count};
  }
  struct ended_pass {
    state& s;
    ~ended_pass() {
      const std::lock_guard lock(s.mutex);
      s.pass = nullptr;
    }
  };
  static void set_unused_ready(state& s, const typename base::pass& pass) {
    std::string names;
    for (std::size_t k = 0; k < s.done.size(); ++k)
      if (s.done[k] == 0 && !pass.is_frozen(k))
        names += concat(names.empty() ? "" : ", ", s.tensors.entries()[k].name);
    if (!names.empty() && s.options.unused == unused_parameters::refuse)
      throw usage_error(
          concat("torch_model: the loss does not depend on ", names,
                 ": remove them from the module, freeze them, or count their gradient "
                 "as zero with torch_model_options{.unused = "
                 "unused_parameters::zero}"));
    for (std::size_t k = s.done.size(); k-- > 0;) s.set_ready(k);
  }

  std::shared_ptr<state> state_;
  mutable std::vector<torch::Tensor> copies_;  // of constants()
};
template <class Module, class F>
torch_model(std::shared_ptr<Module>, F) -> torch_model<>;
template <class Module, class F>
torch_model(std::shared_ptr<Module>, F, torch_model_options) -> torch_model<>;

}  // namespace cordee::inline CORDEE_ABI
