"""hcomp in the Trainer of Lightning.

    torchrun --standalone --nproc-per-node 2 examples/torch/with_lightning.py TEXT
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from model import GPT, Text

import hcomp.torch


class CompressGradients(lightning.Callback):
    """Averages gradients with a codec. Residuals of all ranks go into the Trainer's checkpoints.

    The argument ``ddp_comm_hook`` of DDPStrategy is of no use here: its state is made before the
    ranks are connected, and Lightning ignores it without a GPU.
    """

    def __init__(self, codec: str, **keys: Any) -> None:
        self.codec, self.keys = codec, keys
        self.saved: list[Any] = []

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        ddp = trainer.strategy.model
        self.gradients = hcomp.torch.HookState(ddp, self.codec, **self.keys)
        ddp.register_comm_hook(self.gradients, hcomp.torch.hook)
        if self.saved:
            self.gradients.load_state_dict(self.saved)
            self.saved = []  # another fit() starts without

    def state_dict(self) -> dict[str, Any]:
        """Collective, as Lightning calls it. Needs 4 bytes per compressed value of every rank: for
        large models save gradients.state_dict() in a file per rank instead."""
        if not hasattr(self, "gradients"):  # before training
            return {"ranks": self.saved}
        states: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(states, self.gradients.state_dict())
        return {"ranks": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.saved = state["ranks"]



class Model(lightning.LightningModule):
    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text
        self.gpt = GPT(2, 64, 4, text.context)
        self.losses: list[float] = []

    def training_step(self, _: torch.Tensor) -> torch.Tensor:
        text = self.text.batch(8, self.global_step, self.global_rank)
        loss = self.gpt(text.to(self.device))
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 3e-3)

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(torch.arange(10_000))


def train(file: Path, steps: int, folder: str = "", resume: bool = False) -> tuple[list[float], float]:
    """Losses of this rank, and how many times fewer bytes were sent.

    folder:  gets a checkpoint at the end
    resume:  continues from it
    """
    lightning.seed_everything(1, verbose=False)
    model = Model(Text.read(file, context=32))
    compress = CompressGradients("thc:bits=4", warm_up=2)
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        strategy=DDPStrategy(),
        max_steps=steps,
        callbacks=[compress],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, ckpt_path=f"{folder}/last.ckpt" if resume else None)
    if folder:
        trainer.save_checkpoint(f"{folder}/last.ckpt")
    ratio = compress.gradients.report().ratio
    compress.gradients.close()
    return model.losses, ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path, help="file to learn, for example LICENSE")
    text = parser.parse_args().text
    losses, ratio = train(text, 50)
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {ratio:.1f} times fewer bytes than float32")
