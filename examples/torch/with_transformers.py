"""hcomp in the Trainer of Hugging Face Transformers.

    torchrun --standalone --nproc-per-node 2 examples/torch/with_transformers.py TEXT
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from model import GPT, Text
from transformers import Trainer, TrainerCallback, TrainingArguments

import hcomp.torch


class CompressGradients(TrainerCallback):
    """Averages gradients with a codec. Residuals go into the Trainer's checkpoints.

    A run is resumed from a checkpoint of its own output_dir.
    """

    def __init__(self, codec: str, **keys: Any) -> None:
        self.codec, self.keys = codec, keys

    def of(self, trainer: Trainer) -> CompressGradients:
        self.trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        ddp = self.trainer.model_wrapped
        self.gradients = hcomp.torch.HookState(ddp, self.codec, **self.keys)
        ddp.register_comm_hook(self.gradients, hcomp.torch.hook)
        if state.global_step > 0:
            file = self._file(args, state)
            self.gradients.load_state_dict(torch.load(file))

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        torch.save(self.gradients.state_dict(), self._file(args, state))

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.report = self.gradients.report()
        self.gradients.close()

    def _file(self, args: TrainingArguments, state: Any) -> Path:
        """Every rank has its own."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        return folder / f"hcomp.{args.process_index}"


class Windows(torch.utils.data.Dataset):
    def __init__(self, text: Text, count: int) -> None:
        self.text, self.count = text, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, n: int) -> dict[str, torch.Tensor]:
        return {"text": self.text.batch(1, n)[0]}


class Model(torch.nn.Module):
    """Gives the loss as the Trainer expects it."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.gpt = GPT(2, 64, 4, context)

    def forward(self, text: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.gpt(text)}


def train(file: Path, steps: int, folder: str, resume: bool = False) -> tuple[list[float], float]:
    """Losses of the last steps, and how many times fewer bytes were sent.

    folder:  gets checkpoints
    resume:  continues from the newest
    """
    torch.manual_seed(1)
    text = Text.read(file, context=32)
    arguments = TrainingArguments(
        folder,
        max_steps=steps,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        per_device_train_batch_size=8,
        save_steps=5,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = Trainer(Model(text.context), arguments, train_dataset=Windows(text, 1000))
    compress = CompressGradients("thc:bits=4", warm_up=2).of(trainer)
    trainer.train(resume_from_checkpoint=resume)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, compress.report.ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path, help="file to learn, for example LICENSE")
    text = parser.parse_args().text
    with tempfile.TemporaryDirectory() as folder:
        losses, ratio = train(text, 50, folder)
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {ratio:.1f} times fewer bytes than float32")
