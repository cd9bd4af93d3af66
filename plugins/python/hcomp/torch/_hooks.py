"""Gradients of DistributedDataParallel in few bits, with what was lost kept by parameter."""

# annotations are not postponed: DDP looks at those of the hook

import time
from fnmatch import fnmatchcase
from functools import partial
from typing import Callable, Dict, Iterable, List, Optional, Tuple

import torch
import torch.distributed as dist

from ._state import HookReport, Line, SumState, require_host

Tensor = torch.Tensor


class HookState(SumState):
    """How gradients are averaged, and what was lost, by the names of parameters.

        state = hcomp.torch.HookState(model, "thc:bits=4")
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(state, hcomp.torch.hook)

    Every parameter of ``min_values`` and more is a sum of its own: what it becomes does not depend
    on how DDP fills its buckets. The rest, such as norms and biases, is summed in full precision,
    and so are gradients that are sparse tensors, of which only what is not zero travels. Sums are
    made by a thread in the order of the buckets while backward goes on, over connections of its
    own. Where NaN or infinity is in a gradient, it becomes NaN on all ranks, and what was lost before
    stays. Creation is collective; equal arguments on all ranks.

    module:      whose parameters are trained, in host memory; or DDP with it
    method:      codec and keys: "thc:bits=4", "sign", "bf16", or as in HCOMP_CONFIG; with feedback
                 where the codec wants it ("feedback=no": without)
    group:       of torch.distributed, of any back end; None: all ranks
    min_values:  of parameters that are compressed
    exclude:     patterns of names, such as "*.bias", that are summed in full precision
    warm_up:     first steps in full precision
    full_every:  every so manieth step is in full precision, too, with all that was lost before; 0: none
    timeout:     seconds that connecting and one message may take; a rank that is silent for so long is
                 an HcompError that names it, on all others
    callback:    called with the report after every step, by a thread that makes sums
    at_a_time:   threads that make sums, each with connections of its own, among which parameters are
                 dealt out in the order of the buckets. What sums become does not depend on it. More
                 than 1 is for many parameters of some 100 kB over a network with much latency

    Memory: per compressed value 8 bytes of what was lost and the codec's; a sparse gradient is a dense
    one meanwhile.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        method: str = "thc:bits=4",
        *,
        group: Optional[dist.ProcessGroup] = None,
        min_values: int = 4096,
        exclude: Iterable[str] = (),
        warm_up: int = 0,
        full_every: int = 0,
        timeout: float = 30.0,
        callback: Optional[Callable[[HookReport], None]] = None,
        at_a_time: int = 1,
    ) -> None:
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            module = module.module
        self._name_of = {id(p): name for name, p in module.named_parameters()}
        self._exclude = tuple(exclude)
        self._min_values = min_values
        names = self._name_of.values()
        super().__init__(names, method, group, warm_up, full_every, timeout, callback, at_a_time)

    def put(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Has a bucket averaged."""
        buffer, is_last, called = bucket.buffer(), bucket.is_last(), time.monotonic()
        require_host(buffer)
        # of a sparse gradient, which has a bucket of its own, there are no pieces
        gradients = [buffer] if buffer.is_sparse else bucket.gradients()
        pieces = [(self._name(p), g) for p, g in zip(bucket.parameters(), gradients)]
        step = self.steps
        if is_last:
            self.steps += 1

        pieces_of: Dict[Line, List[Tuple[str, Tensor]]] = {line: [] for line in self._lines}
        for name, gradient in pieces:
            pieces_of[self._line(name, gradient.numel())].append((name, gradient))

        def operation(line: Line) -> Optional[Tensor]:
            with self._busy():
                return self._averaged(line, pieces_of[line], step)

        def finish(results: torch.futures.Future) -> Tensor:
            found = [one.value() for one in results.value()]  # raises what went wrong
            if is_last:  # all of the step before is done, too
                self._finish(time.monotonic() - called, 2 * (self.size - 1) / self.size)
            return next((one for one in found if one is not None), buffer)

        works = [line.queue.put(partial(operation, line)) for line in self._lines]
        return torch.futures.collect_all([work.get_future() for work in works]).then(finish)

    def _name(self, parameter: Tensor) -> str:
        try:
            return self._name_of[id(parameter)]
        except KeyError:
            raise ValueError(
                f"hcomp.torch: a parameter of shape {tuple(parameter.shape)} is not of the module that "
                "the HookState was made for"
            ) from None

    def _is_compressed(self, name: str, values: int) -> bool:
        return values >= self._min_values and not any(fnmatchcase(name, p) for p in self._exclude)

    def _averaged(
        self, line: Line, pieces: List[Tuple[str, Tensor]], step: int
    ) -> Optional[Tensor]:
        """In place, or, where it is sparse, the one that takes its place."""
        with self._lock:
            self._now.values += sum(g.numel() for _, g in pieces)
        if pieces and pieces[0][1].is_sparse:
            return self._averaged_sparse(*pieces[0], step)
        rest = []
        for name, gradient in pieces:
            if self._is_compressed(name, gradient.numel()):
                self._average_one(name, gradient, step)
            else:
                rest.append(gradient)
        if rest:
            self._average_exactly(line, rest)
        return None

    def _average_one(self, name: str, gradient: Tensor, step: int) -> None:
        flat = gradient.detach().to(torch.float32).reshape(-1).contiguous()
        self._average(name, flat, step, lambda total: total.all_reduce(flat.numpy(), mean=True))
        if flat.data_ptr() != gradient.data_ptr():
            gradient.copy_(flat.view_as(gradient))

    def _average_exactly(self, line: Line, gradients: List[Tensor]) -> None:
        flat = torch.cat([g.detach().reshape(-1) for g in gradients]).to(torch.float32)
        self._add(line.group.all_reduce_at(flat.data_ptr(), flat.numel(), "float32", True))
        for g, averaged in zip(gradients, flat.split([g.numel() for g in gradients])):
            g.copy_(averaged.view_as(g))

    def _averaged_sparse(self, name: str, gradient: Tensor, step: int) -> Tensor:
        """Rows of zeros are left out of the result."""
        dense = gradient.to_dense().to(torch.float32).contiguous()
        flat = dense.view(-1)
        total = self._sum(name, flat.numel(), "lossless")
        self._call(total, name, flat, step, lambda it: it.all_reduce(flat.numpy(), mean=True))
        rows = dense.reshape(dense.shape[0], -1).any(1).nonzero().reshape(-1)
        values = dense[rows].to(gradient.dtype)
        return torch.sparse_coo_tensor(rows.unsqueeze(0), values, gradient.shape).coalesce()


def hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For DistributedDataParallel.register_comm_hook."""
    return state.put(bucket)
