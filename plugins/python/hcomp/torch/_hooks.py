"""Gradients of DistributedDataParallel in few bits, with what was lost kept by parameter."""

# annotations are not postponed: DDP looks at those of the hook

import time
import zlib
from fnmatch import fnmatchcase
from typing import Callable, Iterable, List, Optional, Tuple

import torch
import torch.distributed as dist

from ._queue import HcompWork
from ._state import HookReport, SumState, require_host

Tensor = torch.Tensor


class HookState(SumState):
    """How gradients are averaged, and what was lost, by the names of parameters.

        state = hcomp.torch.HookState(model, "thc:bits=4")
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(state, hcomp.torch.hook)

    Every parameter of ``min_values`` and more is a sum of its own: what it becomes does not depend
    on how DDP fills its buckets. The rest, such as norms and biases, is summed in full precision,
    and so are gradients that are sparse tensors, of which only what is not zero travels. Sums are
    started in the order of the buckets and made while backward goes on, over connections of their
    own. Where NaN or infinity is in a gradient, it becomes NaN on all ranks, and what was lost before
    stays. Creation is collective; equal arguments on all ranks.

    module:      whose parameters are trained, in host memory; or DDP with it
    codec:      codec and keys: "thc:bits=4", "sign", "bf16", or as in HCOMP_CONFIG; with feedback
                 where the codec wants it ("feedback=no": without)
    group:       of torch.distributed, of any back end; None: all ranks
    min_values:  of parameters that are compressed
    exclude:     patterns of names, such as "*.bias", that are summed in full precision
    warm_up:     first steps in full precision
    full_every:  every so manieth step is in full precision, too, with all that was lost before; 0: none
    timeout:     seconds that connecting and one message may take; a rank that is silent for so long is
                 an HcompError that names it, on all others
    callback:    called with the report after every step, by a thread that waits for sums
    at_a_time:   sums that are under way at most, over the same connections. What they become does not
                 depend on it. More than 1 saves time where there are many parameters of some 100 kB and
                 the network has latency

    Memory: per compressed value 8 bytes of what was lost and the codec's; a sparse gradient is a dense
    one meanwhile.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        codec: str = "thc:bits=4",
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
        super().__init__(names, codec, group, warm_up, full_every, timeout, callback, at_a_time)

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

        errors: List[BaseException] = []
        sparse: List[Tensor] = []  # in the place of the bucket

        def finish() -> Tensor:
            if errors:
                raise errors[0]
            if is_last:  # all of the step before is done, too
                self._finish(time.monotonic() - called, 2 * (self.size - 1) / self.size)
            return sparse[0] if sparse else buffer

        work = HcompWork(finish)

        def start() -> None:
            try:
                self._start_pieces(pieces, step, errors, sparse)
            except BaseException as error:
                errors.append(error)
            self._finishing.put_work(work)

        self._queue.put(start)
        return work.get_future()

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

    def _start_pieces(
        self,
        pieces: List[Tuple[str, Tensor]],
        step: int,
        errors: List[BaseException],
        sparse: List[Tensor],
    ) -> None:
        """Sums in place; of a gradient that is sparse `sparse` gets the one that takes its place."""
        with self._lock:
            self._now.values += sum(g.numel() for _, g in pieces)
        if pieces and pieces[0][1].is_sparse:
            self._start_sparse(*pieces[0], step, errors, sparse)
            return
        rest = []
        for name, gradient in pieces:
            if self._is_compressed(name, gradient.numel()):
                self._start_one(name, gradient, step, errors)
            else:
                rest.append(gradient)
        if rest:
            self._start_exact(rest, errors)

    def _start_one(
        self, name: str, gradient: Tensor, step: int, errors: List[BaseException]
    ) -> None:
        flat = gradient.detach().to(torch.float32).reshape(-1).contiguous()
        used, given = self._prepared(name, flat, step)

        def finish(report: Callable) -> None:
            self._finished(report, flat, given)
            if flat.data_ptr() != gradient.data_ptr():
                gradient.copy_(flat.view_as(gradient))

        self._start(used, "all_reduce", (flat.numpy(), True), finish, errors)

    def _start_exact(self, gradients: List[Tensor], errors: List[BaseException]) -> None:
        flat = torch.cat([g.detach().reshape(-1) for g in gradients]).to(torch.float32)

        def finish(report: Callable) -> None:
            self._add(report())
            for g, averaged in zip(gradients, flat.split([g.numel() for g in gradients])):
                g.copy_(averaged.view_as(g))

        # `flat` is kept by `finish`.
        arguments = (flat.data_ptr(), flat.numel(), "float32", True)
        self._start(self._group, "all_reduce_at", arguments, finish, errors)

    def _start_sparse(
        self,
        name: str,
        gradient: Tensor,
        step: int,
        errors: List[BaseException],
        sparse: List[Tensor],
    ) -> None:
        """Rows of zeros are left out of the result."""
        dense = gradient.to_dense().to(torch.float32).contiguous()
        flat = dense.view(-1)
        total = self._sum(name, flat.numel(), "lossless_sparse")
        total.set_draws(zlib.crc32(name.encode()), step)

        def finish(report: Callable) -> None:
            self._finished(report, flat)
            rows = dense.reshape(dense.shape[0], -1).any(1).nonzero().reshape(-1)
            values = dense[rows].to(gradient.dtype)
            made = torch.sparse_coo_tensor(rows.unsqueeze(0), values, gradient.shape)
            sparse.append(made.coalesce())

        self._start(total, "all_reduce", (flat.numpy(), True), finish, errors)


def hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For DistributedDataParallel.register_comm_hook."""
    return state.put(bucket)
