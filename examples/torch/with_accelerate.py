"""hcomp in a training with Hugging Face Accelerate.

    accelerate launch --cpu --num_processes 2 examples/torch/with_accelerate.py TEXT
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from model import GPT, Text

import hcomp.torch


def train(file: Path, steps: int, folder: str = "", resume: bool = False) -> tuple[list[float], float]:
    """Losses of this rank, and how many times fewer bytes were sent.

    folder:  gets a checkpoint at the end
    resume:  continues from it
    """
    torch.manual_seed(1)
    text = Text.read(file, context=32)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    model = GPT(2, 64, 4, text.context)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    model, optimizer = accelerator.prepare(model, optimizer)

    gradients = hcomp.torch.HookState(model, "thc:bits=4", warm_up=2)
    model.register_comm_hook(gradients, hcomp.torch.hook)

    # register_for_checkpointing would save the residuals of rank 0 only.
    rank = accelerator.process_index
    accelerator.register_save_state_pre_hook(
        lambda models, weights, path: torch.save(gradients.state_dict(), f"{path}/hcomp.{rank}")
    )
    accelerator.register_load_state_pre_hook(
        lambda models, path: gradients.load_state_dict(torch.load(f"{path}/hcomp.{rank}"))
    )

    if resume:
        accelerator.load_state(folder)
    losses = []
    for step in range(gradients.steps, steps):
        loss = model(text.batch(8, step, rank).to(accelerator.device))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if folder:
        accelerator.save_state(folder)
    ratio = gradients.report().ratio
    gradients.close()
    return losses, ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path, help="file to learn, for example LICENSE")
    text = parser.parse_args().text
    losses, ratio = train(text, 50)
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {ratio:.1f} times fewer bytes than float32")
