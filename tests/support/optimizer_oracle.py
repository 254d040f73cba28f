#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares optimizers with other libraries': forty steps on the toy set T4, in double precision.

Compiles tests/support/optimizer_steps.cpp with $CXX (c++). Needs torch, numpy, timm and schedulefree. With DeepSpeed 0.16 it also
compares one_bit_adam, one_bit_lamb and zero_one_adam, with pytorch_optimizer 4.1 muon and sharpness_aware (its SAM), with
fairscale 0.4 outer_momentum (its SlowMo). apex needs CUDA: ApexLamb and ApexLarc are its formulas (FusedLAMB, LARC), written
again. Fails if a weight differs by more than 1e-12, but where the difference is known: then if it does not differ.
"""
import contextlib
import functools
import importlib.util
import inspect
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest.mock

import torch
from schedulefree import AdamWScheduleFree, SGDScheduleFree
from timm.optim import AdamP, Adan, Lamb, Lars, Lion, Lookahead
from torch.optim import SGD, Adam, AdamW, Muon, RMSprop, _muon

from optimizer_goldens import CENTER, CURVATURE, START

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHAPES = {"W1": (2, 2), "b1": (2,), "W2": (1, 2), "b2": (1,)}
OPTIONAL = {
    "one_bit_adam": "no DeepSpeed with OnebitAdam (0.16 has it)",
    "one_bit_lamb": "no DeepSpeed with OnebitLamb (0.16 has it)",
    "zero_one_adam": "no DeepSpeed with ZeroOneAdam (0.16 has it)",
    "zero_one_adam with decay": "no DeepSpeed with ZeroOneAdam (0.16 has it)",
    "muon{adamw}, pytorch_optimizer": "no pytorch_optimizer",
    "outer_momentum, SlowMo": "no fairscale",
    "sharpness_aware": "no pytorch_optimizer",
    "sharpness_aware, adaptive": "no pytorch_optimizer",
}
KNOWN = {
    "zero_one_adam with decay": "DeepSpeed exchanges the decay with the steps, so that it enters the first moment",
    "muon{adamw} in bf16": "PyTorch rounds to bf16 in its Newton-Schulz steps; muon{adamw} is compared with its formula",
    "lookahead": "timm takes the first slow weights after the first period, the paper and ours before it",
}


def of(values, k):
    return torch.tensor(values[k], dtype=torch.float64).reshape(SHAPES[k])


class ApexLamb(torch.optim.Optimizer):
    """apex.optimizers.FusedLAMB: adam_w_mode, grad_averaging, bias_correction, max_grad_norm 1."""

    def __init__(self, params, use_nvlamb, betas=(0.9, 0.999), eps=1e-6):
        super().__init__(params, {"lr": 1e-3, "weight_decay": 0.01})
        self.use_nvlamb, self.betas, self.eps, self.steps = use_nvlamb, betas, eps, 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        norm = torch.sqrt(sum((p.grad**2).sum() for group in self.param_groups for p in group["params"]))
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad / norm if norm > 1 else p.grad
                for name, beta, x in (("m", self.betas[0], g), ("v", self.betas[1], g * g)):
                    old = self.state[p].get(name, torch.zeros_like(p))
                    self.state[p][name] = beta * old + (1 - beta) * x
                m, v = (self.state[p][n] / (1 - b**self.steps) for n, b in zip("mv", self.betas))
                update = m / (v.sqrt() + self.eps) + group["weight_decay"] * p
                adapts = self.use_nvlamb or group["weight_decay"] != 0
                ratio = p.norm() / update.norm() if adapts and p.norm() != 0 and update.norm() != 0 else 1
                p -= group["lr"] * ratio * update


class ApexLarc:
    """apex.parallel.LARC around an optimizer, with its defaults."""

    def __init__(self, optimizer, clip, trust_coefficient=0.02, eps=1e-8):
        self.optimizer, self.clip, self.trust, self.eps = optimizer, clip, trust_coefficient, eps
        self.param_groups = optimizer.param_groups

    @torch.no_grad()
    def step(self):
        decays = [group["weight_decay"] for group in self.param_groups]
        for group, decay in zip(self.param_groups, decays):
            group["weight_decay"] = 0
            for p in group["params"]:
                if p.norm() != 0 and p.grad.norm() != 0:
                    rate = self.trust * p.norm() / (p.grad.norm() + p.norm() * decay + self.eps)
                    if self.clip:
                        rate = min(rate / group["lr"], 1)
                    p.grad = rate * (p.grad + decay * p)
        self.optimizer.step()
        for group, decay in zip(self.param_groups, decays):
            group["weight_decay"] = decay


class DiLoCo:
    """torchft's procedure on one replica: every fourth step the way back is taken, which is the gradient of an outer SGD
    `delay` steps later (fragment_sync_delay), from the weights of its last step."""

    def __init__(self, optimizer, delay=0):
        self.delay = delay
        self.inner, self.param_groups, self.steps = optimizer, optimizer.param_groups, 0
        self.weights = [p for group in self.param_groups for p in group["params"]]
        self.backup = [p.detach().clone() for p in self.weights]
        self.outer = SGD(self.weights, lr=0.7, momentum=0.9, nesterov=True)

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.steps += 1
        if self.steps % 4 == 0:
            self.way_back = [old - p for p, old in zip(self.weights, self.backup)]
        if self.steps > self.delay and (self.steps - self.delay) % 4 == 0:
            for p, old, way in zip(self.weights, self.backup, self.way_back):
                p.grad = way
                p.copy_(old)
            self.outer.step()
            self.backup = [p.detach().clone() for p in self.weights]


class SlowMo:
    """fairscale's, of one process, in double. Its first slow weights are taken before the first step, as the paper has it;
    fairscale takes them after that step (findings/fairscale_slowmo_first_weights.sh)."""

    def __init__(self, optimizer):
        from fairscale.experimental.nn.data_parallel import SlowMoDistributedDataParallel

        begin_process_group()
        self.inner, self.param_groups = optimizer, optimizer.param_groups
        weights = [p for group in self.param_groups for p in group["params"]]
        with unittest.mock.patch.object(torch.cuda, "synchronize"):  # theirs needs CUDA
            self.slow = SlowMoDistributedDataParallel(
                torch.nn.ParameterList(weights), nprocs_per_node=1, slowmo_momentum=0.9, slowmo_lr=0.7, slowmo_frequency=4,
                localsgd_frequency=4, slowmo_memory_efficient=False, use_streams=False, comm_device=torch.device("cpu"))
        with unittest.mock.patch.object(torch, "float32", torch.float64):
            self.slow._init_global_momentum_buffers(self.inner)

    def step(self):
        self.inner.step()
        with unittest.mock.patch.object(torch.cuda, "synchronize"):
            self.slow.perform_slowmo(self.inner)


class MuonAdamW:
    """torch.optim.Muon for matrices, AdamW for the rest. In double, Muon's source with another type inside."""

    def __init__(self, groups, in_bf16=False, **options):
        self.muon = Muon([g for g in groups if g["params"][0].ndim == 2], **options)
        self.adamw = AdamW([g for g in groups if g["params"][0].ndim != 2])
        self.param_groups = self.muon.param_groups + self.adamw.param_groups
        self.in_bf16 = in_bf16

    def step(self):
        theirs = _muon._zeropower_via_newtonschulz
        if not self.in_bf16:
            source = inspect.getsource(theirs)
            assert source.count("bfloat16") == 1
            scope = dict(vars(_muon))
            exec(source.replace("bfloat16", "float64"), scope)
            _muon._zeropower_via_newtonschulz = scope["_zeropower_via_newtonschulz"]
        self.muon.step()
        _muon._zeropower_via_newtonschulz = theirs
        self.adamw.step()


def pytorch_optimizers_muon(groups):
    """pytorch_optimizer's Muon, whose Newton-Schulz steps are in double here; its AdamW with PyTorch's settings"""
    from pytorch_optimizer import Muon as Theirs
    from pytorch_optimizer.optimizer.muon import base

    steps = base.zero_power_via_newton_schulz_5
    if not isinstance(steps, functools.partial):
        base.zero_power_via_newton_schulz_5 = functools.partial(steps, dtype=torch.float64)
    return Theirs([dict(g, use_muon=g["params"][0].ndim == 2) for g in groups],
                  adamw_betas=(0.9, 0.999), adamw_eps=1e-8)


class Sam:
    """pytorch_optimizer's SAM, whose norms are in double here; adaptive in matrices alone, as ASAM's authors have it"""

    def __init__(self, groups, adaptive, radius):
        from pytorch_optimizer import SAM as Theirs

        for group in groups:
            group["adaptive"] = adaptive and group["params"][0].ndim == 2
        self.inner = Theirs(groups, SGD, rho=radius, perturb_eps=0.0, lr=1, momentum=0.9)
        self.param_groups = self.inner.param_groups

    def step_with(self, take_gradients):
        take_gradients()
        with unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
            self.inner.step(take_gradients)


class OneBit:
    """DeepSpeed's, of one process, whose communication it leaves out. Its first call of step() makes none."""

    def __init__(self, groups, module, name, freeze_step):
        Theirs = getattr(importlib.import_module(f"deepspeed.runtime.fp16.onebit.{module}"), name)
        backend = types.ModuleType("deepspeed.runtime.comm.nccl")  # theirs needs CUDA
        backend.NcclBackend = lambda mpu: types.SimpleNamespace(size=1)
        sys.modules[backend.__name__] = backend
        self.inner = Theirs(groups, types.SimpleNamespace(mpu=None, local_rank=0), freeze_step=freeze_step)
        self.param_groups = self.inner.param_groups

    def step(self):
        with contextlib.redirect_stdout(io.StringIO()):
            if not self.inner.initialize:
                self.inner.step()
            self.inner.step()


class ZeroOneAdam:
    """DeepSpeed's, whose exchange among two processes rounds nothing here and finds both alike. Its first call of step()
    makes none but counts."""

    def __init__(self, groups, **options):
        from deepspeed.runtime.fp16.onebit.zoadam import ZeroOneAdam as Theirs

        backend = types.ModuleType("deepspeed.runtime.comm.nccl")  # theirs needs CUDA
        backend.NcclBackend = lambda mpu: types.SimpleNamespace(size=2, compressed_allreduce=lambda x, *rest: x)
        sys.modules[backend.__name__] = backend
        self.inner = Theirs(groups, types.SimpleNamespace(mpu=None, local_rank=0), **options)
        self.param_groups = self.inner.param_groups

    def step(self):
        with contextlib.redirect_stdout(io.StringIO()):
            if not self.inner.initialize:
                self.inner.step()
                for state in self.inner.state.values():
                    state["step"] = 0
                    for name in ("worker_error", "server_error"):  # it has dropped those of the last tensor
                        state.setdefault(name, torch.zeros(1))
            self.inner.step()


def begin_process_group():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")


def has_onebit_adam():
    """In DeepSpeed 0.16, not in 0.19."""
    try:
        import deepspeed.runtime.fp16.onebit.adam  # noqa: F401
    except ImportError:
        return False
    from deepspeed import comm

    begin_process_group()
    comm.init_distributed("gloo", auto_mpi_discovery=False)
    return True


def theirs(make, decay=0.01, clip=None, around=None, average=None):
    w = {k: of(START, k).requires_grad_() for k in START}
    optimizer = make([{"params": [w[k]], "weight_decay": decay if k[0] == "W" else 0.0} for k in w])
    if around:
        optimizer = around(optimizer)
    if hasattr(optimizer, "train"):
        optimizer.train()
    mean = None

    def take_gradients():
        for k in w:
            w[k].grad = of(CURVATURE, k) * (w[k].detach() - of(CENTER, k))

    for step in range(40):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 / (1 + step / 10)
        if isinstance(optimizer, Sam):
            optimizer.step_with(take_gradients)
        else:
            take_gradients()
            if clip:
                torch.nn.utils.clip_grad_norm_(w.values(), clip)
            optimizer.step()
        if average is not None:
            now = {k: w[k].detach().clone() for k in w}
            mean = now if mean is None else {k: average * mean[k] + (1 - average) * now[k] for k in w}
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    return torch.cat([(w[k].detach() if mean is None else mean[k]).reshape(-1) for k in w])


def oracles():
    heavy_ball = {"lr": 1, "momentum": 0.9}
    yield "sgd", theirs(lambda p: SGD(p, **heavy_ball))
    yield "sgd, Nesterov", theirs(lambda p: SGD(p, nesterov=True, **heavy_ball))
    yield "sgd, dampening", theirs(lambda p: SGD(p, dampening=0.5, **heavy_ball))
    yield "clip{sgd}", theirs(lambda p: SGD(p, **heavy_ball), clip=0.5)
    yield "adam", theirs(Adam)
    yield "adamw", theirs(AdamW)
    yield "adamp", theirs(lambda p: AdamP(p, delta=0.5))
    yield "adamp, Nesterov", theirs(lambda p: AdamP(p, delta=1, nesterov=True))
    yield "lion", theirs(Lion)
    yield "adan", theirs(Adan)
    yield "schedule_free_sgd", theirs(SGDScheduleFree)
    yield "schedule_free_adamw", theirs(AdamWScheduleFree)
    yield "muon{adamw}", theirs(MuonAdamW)
    if importlib.util.find_spec("pytorch_optimizer"):
        yield "muon{adamw}, pytorch_optimizer", theirs(pytorch_optimizers_muon)
        yield "sharpness_aware", theirs(lambda p: Sam(p, adaptive=False, radius=0.2))
        yield "sharpness_aware, adaptive", theirs(lambda p: Sam(p, adaptive=True, radius=0.5))
    yield "muon{adamw}, match_rms_adamw", theirs(
        lambda p: MuonAdamW(p, nesterov=False, adjust_lr_fn="match_rms_adamw"))
    yield "muon{adamw} in bf16", theirs(lambda p: MuonAdamW(p, in_bf16=True))
    if has_onebit_adam():
        yield "one_bit_adam", theirs(lambda p: OneBit(p, "adam", "OnebitAdam", freeze_step=20))
        yield "one_bit_lamb", theirs(lambda p: OneBit(p, "lamb", "OnebitLamb", freeze_step=20))
        for name, decay in (("zero_one_adam", 0.0), ("zero_one_adam with decay", 0.01)):
            yield name, theirs(lambda p: ZeroOneAdam(p, var_freeze_step=15, var_update_scaler=3, local_step_scaler=4,
                                                     local_step_clipper=4), decay=decay)
    yield "rmsprop", theirs(RMSprop)
    yield "rmsprop, momentum", theirs(lambda p: RMSprop(p, momentum=0.9))
    yield "centered_rmsprop", theirs(lambda p: RMSprop(p, momentum=0.9, centered=True))
    yield "lamb", theirs(lambda p: Lamb(p, max_grad_norm=None))
    yield "clip{lamb}", theirs(Lamb)
    yield "lambc", theirs(lambda p: Lamb(p, max_grad_norm=None, trust_clip=True))
    yield "nvlamb", theirs(lambda p: Lamb(p, max_grad_norm=None, always_adapt=True))
    yield "lars_lr_outside", theirs(lambda p: Lars(p, momentum=0.9, trust_coeff=0.5))
    yield "lars_lr_outside, Nesterov", theirs(lambda p: Lars(p, momentum=0.9, trust_coeff=0.5, nesterov=True))
    yield "larc of weights", theirs(lambda p: Lars(p, momentum=0.9, trust_coeff=0.02, trust_clip=True))
    yield "lamb without decay", theirs(lambda p: Lamb(p, max_grad_norm=None), decay=0.0)
    yield "nvlamb without decay", theirs(lambda p: Lamb(p, max_grad_norm=None, always_adapt=True), decay=0.0)
    yield "lars_lr_outside without decay", theirs(lambda p: Lars(p, momentum=0.9, trust_coeff=0.5), decay=0.0)
    yield "apex: clip{lamb}", theirs(lambda p: ApexLamb(p, use_nvlamb=False))
    yield "apex: clip{nvlamb}", theirs(lambda p: ApexLamb(p, use_nvlamb=True))
    yield "apex: larc", theirs(lambda p: SGD(p, **heavy_ball), around=lambda o: ApexLarc(o, clip=True))
    yield "apex: larc without clip", theirs(lambda p: SGD(p, **heavy_ball), around=lambda o: ApexLarc(o, clip=False))
    yield "lookahead", theirs(lambda p: SGD(p, **heavy_ball), decay=0.0, around=lambda o: Lookahead(o, alpha=0.5, k=6))
    yield "outer_momentum", theirs(lambda p: SGD(p, **heavy_ball), decay=0.0, around=DiLoCo)
    if importlib.util.find_spec("fairscale"):
        yield "outer_momentum, SlowMo", theirs(lambda p: SGD(p, **heavy_ball), decay=0.0, around=SlowMo)
    yield "overlapped", theirs(lambda p: SGD(p, **heavy_ball), decay=0.0, around=lambda o: DiLoCo(o, delay=2))
    yield "weight_average", theirs(lambda p: SGD(p, **heavy_ball), decay=0.0, average=0.9)


def ours():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "steps")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-pthread", "-Iinclude", "-I.",
                        "tests/support/optimizer_steps.cpp", "-o", program], cwd=ROOT, check=True)
        for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
            name, *weights = line.split("\t")
            yield name, torch.tensor([float(x) for x in weights], dtype=torch.float64)


def main():
    expected, wrong = dict(oracles()), 0
    for name, weights in ours():
        if name in OPTIONAL and name not in expected:
            print(f"{name:28s}   skipped: {OPTIONAL[name]}")
            continue
        difference = float((weights - expected.pop(name)).abs().max())
        good = difference <= 1e-12
        wrong += good == (name in KNOWN)
        print(f"{name:28s} {difference:9.1e}  {'' if good else KNOWN.get(name, 'WRONG')}")
    sys.exit(f"{wrong} wrong, not compared: {list(expected)}" if wrong or expected else 0)


if __name__ == "__main__":
    main()
