"""Training by ranks of which some may be lost, and others come."""

from __future__ import annotations

import io
from typing import Any, Iterator, Optional

import torch

from .. import ElasticGroup, HcompError, Report, Plan
from ._state import require_host

Tensor = torch.Tensor


class ElasticTraining:
    """Means of gradients over an ElasticGroup, and the state of the training for newcomers.

    Ranks are plain processes: neither torch.distributed, whose groups keep their size, nor torchrun,
    which starts all ranks again, has a part in it.

        group = hcomp.ElasticGroup(directory, rank, ranks)   # a newcomer: .join(directory)
        training = hcomp.torch.ElasticTraining(group, model, optimizer, codec="thc:bits=4")
        while training.step < steps:
            if training.step % 10 == 0:
                training.admit()
            loss_of(model, batch(training.step, group.rank, group.size)).backward()
            training.average_gradients()
            optimizer.step()
            optimizer.zero_grad()
        training.close()
        group.close()

    All who are there have the same parameters, bit by bit, whoever is lost, and when; whoever comes
    has them, too. Creation is collective: rank 0 of a new job gives the others its state, newcomers
    get that of a member. What compression lost of gradients is added to the next ones of the same
    rank; newcomers have lost nothing.

    group:       whose ranks all train the same model
    model:       in host memory; parameters with a gradient are float32, float16 or bfloat16
    others:      what else belongs to the state, such as optimizer and learning-rate scheduler: all
                 that have state_dict and load_state_dict, in the same order on all ranks
    codec:      codec and keys, as of HookState
    min_values:  of parameters that are compressed; the others are averaged in full precision

    Memory: per value of the gradients 12 bytes, 8 more where the codec keeps what was lost, and the
    codec's.
    """

    def __init__(
        self,
        group: ElasticGroup,
        model: torch.nn.Module,
        *others: Any,
        codec: str = "thc:bits=4",
        min_values: int = 4096,
    ) -> None:
        self.group = group
        self.step = 0  #: how often gradients were averaged; newcomers go on from that of the others
        self._model = model
        self._others = others
        parameters = [p for p in model.parameters() if p.requires_grad]
        for p in parameters:
            require_host(p)
            if p.dtype not in (torch.float32, torch.float16, torch.bfloat16):
                raise TypeError(f"hcomp.torch: a parameter of {p.dtype}; they are averaged in float32")
        large = [p for p in parameters if p.numel() >= min_values]
        small = [p for p in parameters if p.numel() < min_values]
        chosen = ((large, codec), (small, "identity"))
        self._means = [_Mean(group, some, words) for some, words in chosen if some]
        if group.rank != 0:
            group.forget()
        self._share(group.rank == 0)

    def average_gradients(self) -> Report:
        """Replace gradients by their means over all who are there. Collective.

        Parameters without a gradient count as zeros. Where NaN or infinity is in one and the codec
        cannot carry it, all compressed gradients become NaN on all ranks. ``report.weight`` says of
        how many ranks the mean is.
        """
        reports = [mean.make() for mean in self._means]
        self.step += 1
        return Report(
            bytes_sent=sum(one.bytes_sent for one in reports),
            weight=min((one.weight for one in reports), default=self.group.size),
            seconds=sum(one.seconds for one in reports),
            seconds_codec=sum(one.seconds_codec for one in reports),
            error=max((one.error for one in reports), default=0.0),
            dominance=max((one.dominance for one in reports), default=0.0),
        )

    def admit(self) -> bool:
        """Let in those who wait to join, and give them the state. Collective, between two steps.

        True on all ranks where somebody has come.
        """
        if not self.group.admit():
            return False
        self._share(True)
        return True

    def state_dict(self) -> dict[str, Any]:
        """What newcomers get: the step, and the states of the model and of the others."""
        return {
            "step": self.step,
            "model": self._model.state_dict(),
            "others": [one.state_dict() for one in self._others],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from it, such as from a checkpoint. On all ranks."""
        if len(state["others"]) != len(self._others):
            raise ValueError(
                f"hcomp.torch: a state of {len(state['others'])} objects beside the model, here are "
                f"{len(self._others)}"
            )
        self.step = state["step"]
        self._model.load_state_dict(state["model"])
        for one, its_state in zip(self._others, state["others"]):
            one.load_state_dict(its_state)

    def close(self) -> None:
        """Free what it needs beside the group. Not collective."""
        for mean in self._means:
            mean.total.close()

    def _share(self, has_state: bool) -> None:
        """Give this rank's state, if it is needed, or take that of another one."""
        mine: Optional[bytes] = None
        if has_state:
            file = io.BytesIO()
            torch.save(self.state_dict(), file)
            mine = file.getvalue()
        given = self.group.share_bytes(mine)
        if given != mine:
            is_new = torch.__version__ >= "2"  # before, weights_only had no numbers
            self.load_state_dict(torch.load(io.BytesIO(given), weights_only=is_new))


class _Mean:
    """Of the gradients of some parameters, in one vector."""

    def __init__(self, group: ElasticGroup, parameters: list[Tensor], words: str) -> None:
        self._group = group
        self._parameters = parameters
        self._flat = torch.zeros(sum(p.numel() for p in parameters))
        self.total = Plan(group, self._flat.numel(), "float32", words)

    @torch.no_grad()
    def make(self) -> Report:
        for p, part in self._parts():
            if p.grad is None:
                part.zero_()
            elif p.grad.is_sparse:
                raise TypeError("hcomp.torch: a gradient is a sparse tensor; they are averaged dense")
            else:
                part.copy_(p.grad)
        try:
            report = self.total.all_reduce(self._flat.numpy(), mean=True)
        except HcompError as error:
            if error.code != HcompError.NONFINITE:
                raise
            self._flat.fill_(float("nan"))
            report = Report(0, self._group.size, 0.0, 0.0, 0.0, 0.0)
        for p, part in self._parts():
            if p.grad is None:
                p.grad = torch.empty_like(p)
            p.grad.copy_(part)
        return report

    def _parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        pieces = self._flat.split([p.numel() for p in self._parameters])
        for p, piece in zip(self._parameters, pieces):
            yield p, piece.view(p.shape)
