#!/usr/bin/env python3
"""Fault-tolerant training: continues when a rank fails, and admits new ranks.

    for rank in 0 1 2; do build/torch/bin/python examples/torch/elastic.py /tmp/run $rank 3 & done
    kill -9 ...                                                     # one rank, during the training
    build/torch/bin/python examples/torch/elastic.py /tmp/run join  # a new rank

Every run needs its own directory, which all ranks can access. At the end, all ranks print the same
loss and the same digest of their parameters.
"""

from __future__ import annotations

import argparse
import hashlib
import time

import torch
from torch import Tensor, nn

import hcomp
import hcomp.torch


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training that outlives ranks.")
    parser.add_argument("directory", help="by which ranks find each other; of this run alone")
    parser.add_argument("rank", help="0 to ranks - 1, or join: to come to a run that goes on")
    parser.add_argument("ranks", nargs="?", type=int, help="how many there are at the start")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--codec", default="thc:bits=4", help="by which gradients are averaged")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds that a step takes longer")
    parser.add_argument("--timeout", type=float, default=30, help="seconds to wait for another rank")
    args = parser.parse_args()
    if args.rank != "join" and (args.ranks is None or not args.rank.isdigit()):
        parser.error(f"rank is {args.rank}, ranks {args.ranks}; they are numbers, or rank is join")
    return args


def batch(*draw: int) -> tuple[Tensor, Tensor]:
    """Points and their target values. Equal numbers draw equal points."""
    random = torch.Generator().manual_seed(sum(10**5 * one for one in draw[1:]) + draw[0])
    x = torch.rand(64, 8, generator=random) * 2 - 1
    return x, torch.sin(3 * x).prod(1, keepdim=True) + x.sum(1, keepdim=True)


def main() -> None:
    args = options()
    if args.rank == "join":
        group = hcomp.ElasticGroup.join(args.directory, args.timeout)
    else:
        group = hcomp.ElasticGroup(args.directory, int(args.rank), args.ranks, args.timeout)
    model = nn.Sequential(nn.Linear(8, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 200, 0.5)
    training = hcomp.torch.ElasticTraining(group, model, optimizer, scheduler, codec=args.codec)
    print(f"{group}, at step {training.step}", flush=True)

    while training.step < args.steps:
        x, y = batch(training.step, group.rank)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        report = training.average_gradients()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        time.sleep(args.pause)
        if training.step % 50 == 0 and group.rank == 0:
            print(f"step {training.step}: a mean over {report.weight} ranks, lost {group.lost}", flush=True)
        if training.step % 10 == 0:
            training.admit()

    with torch.no_grad():
        x, y = batch(args.steps, 10**6)
        loss = nn.functional.mse_loss(model(x), y)
    bits = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(f"held-out loss {loss.item():.6f}, parameters {hashlib.sha256(bits).hexdigest()[:16]}", flush=True)
    training.close()
    group.close()


if __name__ == "__main__":
    main()
