"""A GPT on bytes, and its training text."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

SYMBOLS = 256  # values of a byte


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, context, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, context, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(SYMBOLS, width)  # shared by input and output
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                is_last = name.endswith(("mix.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if is_last else 0.02)

    def forward(self, text: Tensor) -> Tensor:
        """Loss of windows of context + 1 bytes, in nats per byte."""
        x = self.bytes(text[:, :-1]) + self.places.weight
        for block in self.blocks:
            x = block(x)
        scores = F.linear(self.norm(x), self.bytes.weight)
        return F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())


@dataclass
class Text:
    learned: np.ndarray
    held_out: np.ndarray  #: every 20th piece, for validation
    context: int

    @staticmethod
    def read(file: Path, context: int) -> Text:
        raw = file.read_bytes()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        piece = min(16384, len(raw) // 40)
        if piece <= context:
            raise ValueError(
                f"--data: {file} has {len(raw)} bytes, {40 * (context + 1)} are needed for a "
                f"context of {context}"
            )
        pieces = np.frombuffer(raw, np.uint8)[: len(raw) // piece * piece].reshape(-1, piece)
        is_held_out = np.arange(len(pieces)) % 20 == 0
        return Text(pieces[~is_held_out].reshape(-1), pieces[is_held_out].reshape(-1), context)

    def _windows(self, text: np.ndarray, starts: np.ndarray) -> Tensor:
        places = starts[:, None] + np.arange(self.context + 1)
        return torch.from_numpy(text[places].astype(np.int64))

    def batch(self, size: int, *draw: int) -> Tensor:
        """Random windows of the training part. Equal numbers in `draw` draw equal windows."""
        last = len(self.learned) - self.context
        return self._windows(self.learned, np.random.default_rng(draw).integers(last, size=size))

    def validation(self, windows: int, rank: int, ranks: int) -> Tensor:
        """This rank's validation windows. The windows of all ranks are evenly spread."""
        last = len(self.held_out) - self.context - 1
        starts = np.linspace(0, last, windows * ranks).astype(np.int64)
        return self._windows(self.held_out, starts[rank::ranks])
