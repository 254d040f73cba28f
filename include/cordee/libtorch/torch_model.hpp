// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A LibTorch module as a model that a trainer trains, with any optimizer, reducer and transport.
//
//   auto net = std::make_shared<Net>();
//   torch_model model{net, [](Net& n, const auto& b) {
//     return torch::cross_entropy_loss(n.forward(b.data), b.target);
//   }};
//   trainer run{model, lars{}, schedule, ring{comm}};
//   for (auto& b : *loader) run.step(b, b.data.size(0), epoch);
//
// The function returns the mean loss over the samples of its batch; the trainer weights it, so the
// gradient is that of the mean over all ranks' samples. Parameters become views of the run's arena.
// A gradient is copied there once, when backward has completed it, as reported by a hook behind
// each AccumulateGrad node; it is then a view, to which further micro-batches add, and meanwhile
// its bucket is exchanged. On one rank it stays in place if the optimizer reads it in one pass
// (sgd, velocity_sgd, adamw), until the trainer is asked for gradients. Parameters that cannot be
// views, of another number type or not contiguous, are copied each way in every step.
//
// If the function itself calls backward, for an auxiliary loss, gradients are added unweighted:
// correct for equal shares of the samples and an unscaled loss. A sum of losses is always correct.
//
// On a GPU the module's tensors are CUDA tensors, all this is work of the step's stream, and hooks
// run on LibTorch's threads (libtorch/tensor_device.hpp).
//
// A replica of the module belongs to one rank and one trainer. While the trainer exists it must not
// be moved to another device or number type, nor its tensors be replaced; attempts are rejected.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <cordee/core/random.hpp>
#include <cordee/libtorch/bound_tensors.hpp>
#include <cordee/libtorch/generator.hpp>
#include <cordee/libtorch/module_tensors.hpp>
#include <cordee/libtorch/tensor_bytes.hpp>
#include <cordee/libtorch/tensor_device.hpp>
#include <cordee/nn/custom_model.hpp>

namespace cordee::inline CORDEE_ABI {

/// How parameters that the loss does not depend on are handled.
enum class unused_parameters {
  refuse,  ///< An error that names them.
  zero     ///< Their gradient is zero, on all ranks.
};

/// Options of a torch_model.
struct torch_model_options {
  /// How to handle parameters that a batch's loss does not depend on. Default: most are mistakes.
  unused_parameters unused = unused_parameters::refuse;
  /// Kinds of tensors by name, if the module that owns one does not determine it, as for custom
  /// norms.
  std::vector<std::pair<std::string, kind>> kinds{};
};

/// A module with its loss. Data is a batch of the loader: for torch::data, an Example of stacked
/// tensors. P is the arena's precision: fp32, fp64 for double modules; fp16 or bf16 for half and
/// bfloat16 modules, whose master weights are then floats.
template <class Data = torch::data::Example<>, class P = fp32, class D = cpu>
class torch_model : public custom_model<Data, P, D> {
  using base = custom_model<Data, P, D>;
  using Real = typename P::master;
  using place = detail::libtorch::tensor_device<D>;
  static_assert(
      requires { typename place::scope; },
      "torch_model on a GPU needs CUDA tensors: compile this file as CUDA, against PyTorch's "
      "CUDA build (the folder torch of PyPI's wheel in CMAKE_PREFIX_PATH)");

  struct state {
    detail::libtorch::bound_tensors<Real, D> tensors;
    unused_parameters unused;
    /// Of a batch, in training or not; also the number of correct predictions.
    std::function<std::pair<torch::Tensor, std::int64_t>(const Data&, bool)> loss{};

    // State of the running pass; hooks of a GPU's tensors run on other threads.
    std::mutex mutex{};
    typename base::pass* pass = nullptr;
    std::int64_t step = -1;   // of the last training pass,
    std::uint32_t micro = 0;  // and which of the step's passes it was

    state(std::vector<detail::libtorch::module_tensor> all, const torch_model_options& o,
          const D& d)
        : tensors(std::move(all), o.kinds, place::place(d)), unused(o.unused) {}

    void set_pass(typename base::pass* p) {
      const std::lock_guard lock(mutex);
      pass = p;
    }
    void set_ready(std::size_t k) {
      const std::lock_guard lock(mutex);
      if (pass == nullptr || pass->is_ready(k)) return;
      tensors.store_gradient(k);
      pass->ready(k, place::current(pass->get_device()));
    }
  };

 public:
  using packed_parameters = typename base::packed_parameters;  ///< See Model.
  using stream = typename base::stream;                        ///< See Model.

  /// See Model: backward overwrites every gradient in a step's first micro-batch.
  static constexpr bool overwrites_gradients = true;

  /// loss(*module, batch) returns the mean loss over the batch's samples, a tensor of one number,
  /// or a std::pair of it and the number of correct predictions, without which the run has no
  /// accuracy. Module is a torch::nn::Module or a torch::jit::Module. @throws usage_error for a
  /// module without trainable parameters or on another device, and for an option that names no
  /// tensor.
  template <class Module, class F>
    requires std::is_invocable_r_v<torch::Tensor, F&, Module&, const Data&> ||
             std::is_invocable_r_v<std::pair<torch::Tensor, std::int64_t>, F&, Module&, const Data&>
  torch_model(std::shared_ptr<Module> module, F loss, const torch_model_options& options = {},
              D device = {})
      : torch_model(make_state(module, std::move(loss), options, device), device) {}

  /// Copies the module's values; rank 0's become those of all ranks.
  void initialize(span_on<Real, D> plane, std::uint64_t) const {
    const stream s{};
    const typename place::scope on(base::get_device(), s);
    state_->tensors.store(plane.data, false);
    base::get_device().finish(s);
  }
  /// Makes the module read `plane` from now on.
  void pack_parameters(span_on<const Real, D> plane, packed_parameters& to, stream s) const {
    base::pack_parameters(plane, to, s);
    const typename place::scope on(base::get_device(), s);
    state_->tensors.bind_values(to.data);
  }
  /// See Model.
  void backward(const packed_parameters& values, detail::device::plane_part<Real, D> gradients,
                write_mode mode, const std::function<void(std::size_t)>& ready, stream s) {
    state_->tensors.bind_gradients(gradients, mode);
    base::backward(values, gradients, write_mode::add, ready, s);
  }
  /// See Model: backward skips frozen tensors.
  void freeze(std::span<const std::uint8_t> flags) {
    base::freeze(flags);
    for (std::size_t k = 0; k < state_->tensors.trainable(); ++k)
      state_->tensors.entries()[k].tensor.requires_grad_(flags.empty() || flags[k] == 0);
  }
  /// What leaves gradients in LibTorch's memory where the trainer lets it.
  [[nodiscard]] auto& gradient_lender()
    requires(D::host_memory)
  {
    return state_->tensors;
  }
  /// Frozen parameters, integer buffers and second names of shared tensors, for weight files; valid
  /// until the next call.
  [[nodiscard]] std::vector<detail::io::tensor_view> constants() const {
    std::vector<detail::io::tensor_view> all;
    copies_.clear();
    const auto add = [&](const detail::libtorch::module_tensor& t) {
      for (const std::string& name : t.other_names) {
        copies_.push_back(t.tensor.detach().to(torch::kCPU).contiguous());
        all.push_back(detail::libtorch::view_of(name, copies_.back()));
      }
    };
    for (const auto& c : state_->tensors.constants()) add(c);
    for (const auto& e : state_->tensors.entries()) add(e);
    return all;
  }
  /// Reads those that the file has. @throws error for one of another number type or shape.
  void set_constants(const detail::io::tensor_file& file) {
    for (auto& c : state_->tensors.constants()) detail::libtorch::read(file, c.name, c.tensor);
  }
  /// Their bytes, of which rank 0's are copied to all ranks. They are not exchanged later.
  [[nodiscard]] std::vector<span_on<std::byte, D>> constant_bytes() const {
    std::vector<span_on<std::byte, D>> all;
    for (auto& c : state_->tensors.constants())
      if (c.tensor.is_contiguous())
        all.push_back({static_cast<std::byte*>(c.tensor.data_ptr()), c.tensor.nbytes()});
    return all;
  }
  /// Tensors by kind, where weights and gradients are, and the bytes copied; for logs.
  [[nodiscard]] std::string describe_parameters() const {
    std::size_t bytes = 0;
    for (const auto& e : state_->tensors.entries())
      if (!e.is_view) bytes += static_cast<std::size_t>(e.tensor.numel()) * sizeof(Real);
    std::string text = concat(
        base::parameters().describe(),
        "; parameters of the module are views of the arena, gradients once they are complete");
    if (bytes > 0)
      text +=
          concat(", but for ", detail::core::grouped(bytes), " bytes, which are copied each way");
    return text;
  }

 private:
  torch_model(std::shared_ptr<state> s, const std::type_identity_t<D>& device)  // deduces nothing
      : base(
            s->tensors.list(),
            [s](const Data& data, typename base::pass& now) { return run(*s, data, now); }, device),
        state_(std::move(s)) {}

  template <class Module, class F>
  static std::shared_ptr<state> make_state(const std::shared_ptr<Module>& module, F loss,
                                           const torch_model_options& options, const D& device) {
    expects(module != nullptr, "torch_model: the module is null");
    auto s = std::make_shared<state>(detail::libtorch::tensors_of(*module), options, device);
    s->loss = [module, loss = std::move(loss)](
                  const Data& data, bool trains) mutable -> std::pair<torch::Tensor, std::int64_t> {
      module->train(trains);
      if constexpr (std::is_invocable_r_v<torch::Tensor, F&, Module&, const Data&>)
        return {loss(*module, data), -1};
      else
        return loss(*module, data);
    };
    for (std::size_t k = 0; k < s->tensors.trainable(); ++k) {
      auto& e = s->tensors.entries()[k];
      e.node = torch::autograd::impl::grad_accumulator(e.tensor);
      e.node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [weak = std::weak_ptr<state>(s), k](const auto& outputs, const auto&) {
            if (const auto own = weak.lock()) own->set_ready(k);
            return outputs;
          }));
    }
    return s;
  }

  static metrics run(state& s, const Data& data, typename base::pass& pass) {
    s.tensors.expect_in_place();
    const typename place::scope on(pass.get_device(), pass.stream());
    const torch::AutoGradMode mode(pass.trains());
    const auto count = static_cast<double>(pass.update().count);
    at::autocast::clear_cache();  // of values from before the last update
    if (pass.trains()) seed_pass(s, pass);
    auto [loss, right] = s.loss(data, pass.trains());
    if (!loss.defined() || loss.numel() != 1)
      throw usage_error(
          concat("torch_model: the function returns the mean loss of the batch, one "
                 "number; it returned ",
                 loss.defined() ? concat(loss.numel(), " numbers") : "no tensor"));
    if (pass.trains()) {
      s.tensors.store(pass.weights(0).data, true);  // tested together with the first bucket
      s.set_pass(&pass);
      const std::unique_ptr<state, void (*)(state*)> end(&s,
                                                         [](state* x) { x->set_pass(nullptr); });
      if (loss.requires_grad()) {  // in the master's type: a scaled loss may be beyond half's range
        loss = loss.to(std::is_same_v<Real, double> ? torch::kDouble : torch::kFloat);
        loss.backward(torch::full_like(loss, count * pass.loss_weight()));
      }
      set_unused_ready(s, pass);
    }
    const torch::NoGradGuard no_grad;  // the loss is read behind the step
    torch::from_blob(&pass.sums().data->loss, {1}, loss.options().dtype(torch::kDouble))
        .add_(loss.detach().to(torch::kDouble).reshape({1}), count);
    return {.top1 = right, .top5 = -1, .count = pass.update().count};
  }
  // Random numbers are a function of the run's seed, the step, the place of the samples in it, and
  // the pass, as those of the library's own dropout.
  static void seed_pass(state& s, const typename base::pass& pass) {
    s.micro = pass.step() == s.step ? s.micro + 1 : 0;
    s.step = pass.step();
    const random_sequence update(pass.update().seed, purpose::dropout,
                                 static_cast<std::uint64_t>(s.step),
                                 static_cast<std::uint64_t>(pass.update().first_sample));
    detail::libtorch::seed_generator(update.subsequence(s.micro));
    if constexpr (!D::host_memory)
      detail::libtorch::seed_generator(update.subsequence(s.micro),
                                       place::place(pass.get_device()));
  }
  static void set_unused_ready(state& s, const typename base::pass& pass) {
    std::string names;
    for (std::size_t k = 0; k < s.tensors.trainable(); ++k)
      if (!pass.is_ready(k) && !pass.is_frozen(k))
        names += concat(names.empty() ? "" : ", ", s.tensors.entries()[k].name);
    if (!names.empty() && s.unused == unused_parameters::refuse)
      throw usage_error(
          concat("torch_model: the loss does not depend on ", names,
                 ": remove them from the module, freeze them, or count their gradient "
                 "as zero with torch_model_options{.unused = "
                 "unused_parameters::zero}"));
    for (std::size_t k = s.tensors.trainable(); k-- > 0;) s.set_ready(k);
  }

  std::shared_ptr<state> state_;
  mutable std::vector<torch::Tensor> copies_;  // of constants()
};
template <class Module, class F, class D = cpu>
torch_model(std::shared_ptr<Module>, F, torch_model_options = {}, D = {})
    -> torch_model<torch::data::Example<>, fp32, D>;

}  // namespace cordee::inline CORDEE_ABI
