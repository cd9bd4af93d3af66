"""Fault-tolerant data-parallel training."""

from __future__ import annotations

import io
from typing import Any, Iterator, Optional

import torch

from .. import ElasticGroup, HcompError, Report, Plan
from .._library import largest_error
from ._state import require_host

Tensor = torch.Tensor


class ElasticTraining:
    """Averages gradients over an ElasticGroup, and sends the training state to newcomers.

    Ranks are plain processes. torch.distributed is not used, because its groups have a fixed size.
    torchrun is not used, because it restarts all ranks.

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

    All members have bit-identical parameters, whenever ranks fail or join. Creation is collective:
    in a new job all ranks get the state of rank 0, a newcomer gets that of a member. With error
    feedback, each rank keeps its own residual; a newcomer starts with zero.

    `group`:       all its ranks train the same model
    `model`:       in host memory; parameters with a gradient are float32, float16 or bfloat16
    `others`:      further state, for example optimizer and learning-rate scheduler: objects with
                   state_dict and load_state_dict, in the same order on all ranks
    `codec`:       codec and keys, as in HookState
    `min_values`:  parameters with fewer values are averaged in full precision

    Memory: 12 bytes per value of the gradients, 8 more for codecs with error feedback, and the
    codec's own buffers.
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
        self.step = 0  #: number of averaged steps; newcomers take that of a member
        self._admitted_at = -1  #: step in which the members' admit() sent this newcomer the state
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
        if self._share(group.rank == 0, is_admitting=False):
            self._admitted_at = self.step

    def average_gradients(self) -> Report:
        """Replace gradients by their means over all members. Collective.

        A parameter without a gradient counts as zeros. If a gradient contains NaN or infinity and
        the codec cannot encode it, all compressed gradients become NaN on all ranks.
        ``report.weight`` is the number of ranks in the mean.
        """
        reports = [mean.make() for mean in self._means]
        self.step += 1
        return Report(
            bytes_sent=sum(one.bytes_sent for one in reports),
            weight=min((one.weight for one in reports), default=self.group.size),
            seconds=sum(one.seconds for one in reports),
            seconds_codec=sum(one.seconds_codec for one in reports),
            error=largest_error(one.error for one in reports),
            dominance=max((one.dominance for one in reports), default=0.0),
            residual=max((one.residual for one in reports), default=0.0),
        )

    def admit(self) -> bool:
        """Admit the ranks that wait to join, and send them the state. Collective, between two
        steps.

        Returns True on all ranks if a newcomer has joined. A newcomer that calls it in the step in
        which it joined gets the result of that call of the members.
        """
        if self._admitted_at == self.step:
            self._admitted_at = -1
            return True
        if not self.group.admit():
            return False
        self._share(True, is_admitting=True)
        return True

    def state_dict(self) -> dict[str, Any]:
        """State for newcomers: step, model, and the further objects."""
        return {
            "step": self.step,
            "model": self._model.state_dict(),
            "others": [one.state_dict() for one in self._others],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state, for example from a checkpoint. Must be called on all ranks."""
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
        """Free the resources of this object, but not the group. Not collective."""
        for mean in self._means:
            mean.total.close()

    def _share(self, has_state: bool, is_admitting: bool) -> bool:
        """Provide this rank's state if another rank needs it, or load the state of another rank.

        Returns True if the other rank has sent the state within admit().
        """
        mine: Optional[bytes] = None
        if has_state:
            file = io.BytesIO()
            torch.save({**self.state_dict(), "is_admitting": is_admitting}, file)
            mine = file.getvalue()
        given = self.group.share_bytes(mine)
        if given == mine:
            return False
        is_new = torch.__version__ >= "2"  # older versions reject numbers with weights_only
        state = torch.load(io.BytesIO(given), weights_only=is_new)
        self.load_state_dict(state)
        return state["is_admitting"]


class _Mean:
    """Mean of the gradients of some parameters, as one vector."""

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
