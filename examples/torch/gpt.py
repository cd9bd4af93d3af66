#!/usr/bin/env python3
"""Trains a small GPT on bytes of text, data-parallel over the ranks that torchrun starts.

    torchrun --standalone --nproc-per-node 4 examples/torch/gpt.py --method thc:bits=4

--method selects how gradients are averaged: a codec of hcomp ("identity": full precision), "gloo"
(DistributedDataParallel without a hook) or "powersgd:rank=R" (PyTorch's hook). "marsit" averages
optimizer steps instead. Runs with equal arguments give bit-identical losses, also with breaks
(--resume). --device cuda trains on one GPU per rank, over NCCL and with bfloat16 autocast.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar

import torch
import torch.distributed as dist
from model import GPT, Text
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


class Averaging:
    """Averages gradients or steps over the ranks, and counts the bytes.

    With every method, the first `warm_up` steps are in full precision.
    """

    def __init__(
        self, method: str, model: nn.Module, optimizer: torch.optim.Optimizer, warm_up: int
    ) -> None:
        self.model = model  #: the model to call
        self.step = optimizer.step  #: the call after backward
        self.values = sum(p.numel() for p in model.parameters())
        self.steps = 0
        self.hcomp: Any = None
        self.powersgd: Optional[PowerSGDState] = None
        name, _, words = method.partition(":")
        if name == "marsit":
            import hcomp.torch

            period = number_in(method, words, "period", 100)
            self.hcomp = hcomp.torch.Marsit(
                model.parameters(), optimizer, period=period, warm_up=warm_up
            )
            self.step = self.hcomp.step
            return
        # With several buckets, PowerSGD's order of all-reduces differs between ranks; Gloo fails.
        bucket_cap_mb = 4 if name != "powersgd" else 1 << 10
        ddp = self.model = DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb)
        if name == "powersgd":
            rank = number_in(method, words, "rank", None)
            self.powersgd = PowerSGDState(None, rank, start_powerSGD_iter=max(2, warm_up))
            ddp.register_comm_hook(self.powersgd, powerSGD_hook)
        elif method != "gloo":
            import hcomp.torch

            self.hcomp = hcomp.torch.HookState(ddp.module, method, warm_up=warm_up)
            ddp.register_comm_hook(self.hcomp, hcomp.torch.hook)

    def bytes_sent(self) -> int:
        """Bytes that this rank has sent. For Gloo and PowerSGD: the bytes of a ring all-reduce."""
        if self.hcomp:
            return self.hcomp.report().bytes_sent
        values = self.steps * self.values
        if self.powersgd:
            values = min(self.steps, self.powersgd.start_powerSGD_iter) * self.values
            values += self.powersgd.total_numel_after_compression
        ranks = dist.get_world_size()
        return 4 * values * 2 * (ranks - 1) // ranks


def number_in(method: str, words: str, key: str, usual: Optional[int]) -> int:
    """The number of a text like "rank=4". `usual`: default for an empty text; None: no default."""
    number = words.removeprefix(f"{key}=")
    if usual is not None and not words:
        return usual
    if number == words or not number.isdigit() or int(number) == 0:
        raise ValueError(f"--method is '{method}'; behind its name is {key}=N, N above 0")
    return int(number)


@dataclass
class Progress:
    step: int = 0  #: finished steps
    loss: float = 0.0  #: sum over the steps since the last history entry
    bytes: int = 0  #: bytes of gradients that this rank has sent
    seconds: float = 0.0  #: time of the steps, without validation
    history: list[dict[str, float]] = field(default_factory=list)


class Training:
    """A model and the state of its training."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.settings = settings_of(args, self.ranks)
        self.text = on_all_ranks(lambda: Text.read(args.data, args.context))
        self.device = torch.device(args.device)
        validation = self.text.validation(args.validation, self.rank, self.ranks)
        self.validation = validation.to(self.device)
        torch.manual_seed(args.seed)
        self.model = GPT(args.layers, args.width, args.heads, args.context).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), betas=(0.9, 0.95))
        self.warm_up = max(1, args.steps // 20)
        self.averaging = on_all_ranks(
            lambda: Averaging(args.method, self.model, self.optimizer, self.warm_up)
        )
        self.progress = Progress()
        if args.checkpoint:
            self.file = args.checkpoint.with_name(f"{args.checkpoint.name}.rank{self.rank}")
        if args.resume:
            on_all_ranks(self.resume)
            steps = [0] * self.ranks
            dist.all_gather_object(steps, self.progress.step)
            on_all_ranks(lambda: require(len(set(steps)) == 1, f"--resume: ranks are at {steps}"))
        self.bytes_before = self.progress.bytes

    def run(self, interrupted: threading.Event) -> None:
        args, now = self.args, self.progress
        until = min(args.steps, args.stop_at or args.steps)
        while now.step < until:
            begin = time.perf_counter()
            loss = self.step()
            told = torch.tensor([loss, interrupted.is_set()], dtype=torch.float64)
            dist.all_reduce(told)
            now.step += 1
            now.loss += told[0].item() / self.ranks
            now.bytes = self.bytes_before + self.averaging.bytes_sent()
            now.seconds += time.perf_counter() - begin
            if told[1] > 0:
                until = now.step
            is_noted = now.step % args.every == 0 or now.step == args.steps
            if is_noted:
                self.note()
            if args.checkpoint and (now.step % args.checkpoint_every == 0 or now.step == until):
                self.save()
            if now.step == until and not is_noted:
                self.note()  # after save(): a run without the break has no such entry
        if self.averaging.hcomp:
            self.averaging.hcomp.close()

    def step(self) -> float:
        """Trains on one batch; returns this rank's loss."""
        args, step = self.args, self.progress.step
        declined = max(0, step - self.warm_up) / max(1, args.steps - self.warm_up)
        share = min((step + 1) / self.warm_up, 0.55 + 0.45 * math.cos(math.pi * declined))
        for group in self.optimizer.param_groups:
            group["lr"] = args.rate * share
        self.optimizer.zero_grad()
        batch = self.text.batch(args.batch, args.seed, step, self.rank).to(self.device)
        with self.autocast():
            loss = self.averaging.model(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.averaging.step()
        self.averaging.steps += 1
        return loss.item()

    def autocast(self) -> Any:
        is_on_gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_on_gpu)

    def note(self) -> None:
        """Validates, prints a line and writes the history."""
        with torch.no_grad(), self.autocast():
            held_out = self.model(self.validation)
        dist.all_reduce(held_out)
        now = self.progress
        steps = now.step - (now.history[-1]["step"] if now.history else 0)
        entry = {
            "step": now.step,
            "training_loss": now.loss / steps,
            "validation_loss": held_out.item() / self.ranks,
            "bytes": now.bytes,
            "seconds": now.seconds,
        }
        now.loss = 0.0
        now.history.append(entry)
        if self.rank != 0:
            return
        print(
            f"step {now.step}  training loss {entry['training_loss']:.4f}  validation loss "
            f"{entry['validation_loss']:.4f}  sent {now.bytes / 1e6:.2f} MB  {now.seconds:.1f} s",
            flush=True,
        )
        if self.args.json:
            of_hook = asdict(self.averaging.hcomp.report()) if self.averaging.hcomp else None
            shown = {"settings": self.settings, "parameters": self.averaging.values}
            words = json.dumps({**shown, "hook": of_hook, "history": now.history}, indent=1)
            write(self.args.json, lambda file: file.write_text(words))

    def save(self) -> None:
        """Saves this rank's checkpoint. Residuals differ, so every rank saves its own."""
        hcomp = self.averaging.hcomp
        state = {
            "settings": self.settings,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "gradients": hcomp.state_dict() if hcomp else None,
            "progress": asdict(self.progress),
        }
        write(self.file, lambda file: torch.save(state, file), together=True)

    def resume(self) -> None:
        state = torch.load(self.file, weights_only=True)
        for name, value in self.settings.items():
            before = state["settings"][name]
            require(before == value, f"--resume: {name} was {before} in {self.file}, now {value}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.averaging.hcomp:
            self.averaging.hcomp.load_state_dict(state["gradients"])
        self.progress = Progress(**state["progress"])


def write(file: Path, how: Callable[[Path], Any], together: bool = False) -> None:
    """Replaces a file atomically. `together`: all ranks replace their files after a barrier."""
    unfinished = file.with_name(file.name + ".part")
    how(unfinished)
    if together:
        dist.barrier()
    os.replace(unfinished, file)


def require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)


def on_all_ranks(make: Callable[[], T]) -> T:
    """Returns make(). If it fails on a rank, all ranks exit and rank 0 prints the first error."""
    result, problem = None, None
    try:
        result = make()
    except (ValueError, OSError, EOFError, RuntimeError, ImportError) as error:
        problem = str(error)
    problems: list[Optional[str]] = [None] * dist.get_world_size()
    dist.all_gather_object(problems, problem)
    words = next((p for p in problems if p is not None), None)
    if words is not None:
        if dist.get_rank() == 0:
            print(f"gpt.py: {words}", file=sys.stderr, flush=True)
        dist.barrier()
        sys.exit(2)
    return result  # type: ignore[return-value]


def settings_of(args: argparse.Namespace, ranks: int) -> dict[str, str]:
    """The settings that a resumed run must share with its checkpoint."""
    names = "method steps batch layers width heads context seed rate data".split()
    return {name: str(getattr(args, name)) for name in names} | {"ranks": str(ranks)}


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(f"{message} (--help lists all arguments)")

    def number(self, name: str, value: Optional[float], text: str) -> None:
        kind = float if isinstance(value, float) else int

        def number(word: str) -> float:
            if not 0 < kind(word) < math.inf:
                raise argparse.ArgumentTypeError(f"{word} is not above 0")
            return kind(word)

        self.add_argument(name, type=number, default=value, metavar="N", help=text)


def options(arguments: list[str]) -> argparse.Namespace:
    class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
        pass

    parser = Parser("gpt.py", description=__doc__, formatter_class=Help)
    parser.add_argument("--method", default="thc:bits=4", help="how gradients are averaged")
    parser.number("--steps", 1000, "of the whole training, over which the learning rate falls")
    parser.number("--batch", 8, "windows of text per rank and step")
    parser.number("--layers", 4, "blocks of attention and perceptron")
    parser.number("--width", 256, "values per byte between blocks")
    parser.number("--heads", 8, "of attention")
    parser.number("--context", 128, "bytes that a window has")
    parser.number("--rate", 1e-3, "highest learning rate")
    parser.number("--seed", 1, "of the first weights and of all batches")
    parser.number("--every", 50, "steps between two lines, with validation")
    parser.number("--validation", 32, "windows of text per rank that are held out")
    text = "/usr/share/dictd/gcide.dict.dz"
    parser.add_argument("--data", type=Path, default=text, help="text, as it is or by gzip")
    parser.add_argument("--json", type=Path, help="file for the history")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="prefix of FILE.rank0, ...")
    parser.number("--checkpoint-every", 200, "steps between two checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.number("--stop-at", None, "end after this step, with a checkpoint")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the model")
    parser.add_argument("--quick", action="store_true", help="sizes that take seconds")
    if "--quick" in arguments:
        parser.set_defaults(steps=40, layers=2, width=64, heads=2, context=32, every=10, rate=3e-3)
    args = parser.parse_args(arguments)
    width, heads = args.width, args.heads
    require(width % heads == 0, f"--width {width}: no multiple of --heads {heads}")
    require(not args.resume or args.checkpoint, "--resume needs --checkpoint FILE to go on from")
    if args.device == "cuda":
        require(torch.cuda.is_available(), "--device cuda: PyTorch finds no GPU")
        require(args.method != "marsit", "--method marsit is for --device cpu")
    if args.checkpoint and args.method.startswith("powersgd"):
        raise ValueError("--checkpoint is for gloo and codecs, not for powersgd")
    return args


def main() -> None:
    if "RANK" not in os.environ:
        try:
            options(sys.argv[1:])
        except ValueError as error:
            sys.exit(f"gpt.py: {error}")
        sys.exit("gpt.py: start it by torchrun --standalone --nproc-per-node 4 .../gpt.py")
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        dist.init_process_group("cpu:gloo,cuda:nccl")
    else:
        dist.init_process_group("gloo")
    training = Training(on_all_ranks(lambda: options(sys.argv[1:])))
    if training.rank == 0:
        print(f"{training.averaging.values} parameters on {training.ranks} ranks", flush=True)
    training.run(interrupted)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
