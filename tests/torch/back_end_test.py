"""The back end of torch.distributed on several ranks, compared with Gloo. Started by torchrun."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from on_ranks import alike, raises, run_tests
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("cpu:hcomp")  # found by its entry point: the test does not import hcomp
rank, ranks = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo")

import hcomp  # noqa: E402
import hcomp.torch  # noqa: E402

floats = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# the last one takes the path of long vectors, and does not fill its last block
sizes = (0, 1, 1000, 70_001)


def whole_numbers(values, dtype, of=None):
    """0 to 6 times the rank's number, which counts from 1; divisible by 3. All results are exact in
    all types."""
    number = (rank if of is None else of) + 1
    return (torch.arange(values) % 7 * number * 3 % 64).to(dtype)


def test_all_reduce():
    for dtype in (*floats, torch.int32, torch.int64, torch.uint8):
        for values in sizes:
            x, y = whole_numbers(values, dtype), whole_numbers(values, dtype)
            dist.all_reduce(x)
            dist.all_reduce(y, group=gloo)
            alike(x, y)
    for dtype in floats:
        x, total = whole_numbers(5000, dtype), sum(whole_numbers(5000, dtype, r) for r in range(ranks))
        x *= ranks
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        alike(x, total)


def test_all_reduce_of_any_layout():
    for strange in (
        lambda x: x.reshape(50, 40).t(),
        lambda x: x.reshape(5, 4, 10, 10).to(memory_format=torch.channels_last),
        lambda x: x[::3],
    ):
        x, y = strange(whole_numbers(2000, torch.float32)), strange(whole_numbers(2000, torch.float32))
        rest = x._base.sum() - x.sum() if x._base is not None else 0
        dist.all_reduce(x)
        y = y.contiguous()
        dist.all_reduce(y, group=gloo)
        alike(x.contiguous(), y)
        # values between the views do not change
        assert x._base is None or x._base.sum() - x.sum() == rest


def channels_last(value):
    return torch.full((2, 3, 4, 5), float(value)).to(memory_format=torch.channels_last)


def test_tensors_of_any_layout_may_require_gradients():
    for make in (channels_last, lambda value: torch.full((4, 6), float(value)).t()):
        for is_async in (False, True):
            x = torch.nn.Parameter(make(rank))
            work = dist.broadcast(x, ranks - 1, async_op=is_async)
            time.sleep(0.02)  # the copy is made in another thread
            if is_async:
                work.wait()
            assert (x == ranks - 1).all() and x.requires_grad and x.grad_fn is None
            work = dist.all_reduce(x, async_op=is_async)
            if is_async:
                work.wait()
            assert (x == ranks * (ranks - 1)).all()


def test_a_collective_leaves_the_version_of_a_tensor_as_it_is():
    """Autograd then accepts buffers that are broadcast between forward and backward."""
    weight, x = torch.ones(1, requires_grad=True), channels_last(1)
    y = (weight * x).sum()
    dist.broadcast(x, 0)
    y.backward()
    assert weight.grad == x.numel()


def test_inference_mode():
    for is_async in (False, True):
        with torch.inference_mode():
            x, parts = channels_last(rank), [torch.zeros(4) for _ in range(ranks)]
            count, whole = torch.tensor([rank]), torch.zeros(2, 2 * ranks).t()
            works = [
                dist.all_reduce(x, async_op=is_async),
                dist.all_reduce(count, op=dist.ReduceOp.AVG, async_op=is_async),
                dist.all_gather(parts, torch.full((4,), float(rank)), async_op=is_async),
                dist.all_gather_into_tensor(whole, torch.ones(2, 2), async_op=is_async),
            ]
            time.sleep(0.02)
        for work in works:
            if is_async:
                work.wait()
        assert (x == sum(range(ranks))).all() and count == (ranks - 1) // 2
        assert [part[0].item() for part in parts] == list(range(ranks)) and (whole == 1).all()


def test_expanded_tensors():
    for is_async in (False, True):
        x = torch.tensor([[1.0], [2.0]]).expand(2, 5)
        work = dist.all_reduce(x, async_op=is_async)
        if is_async:
            work.wait()
        alike(x, torch.tensor([[ranks], [2 * ranks]], dtype=torch.float32).expand(2, 5))
        x = torch.full((1,), float(rank)).expand(4)
        dist.broadcast(x, ranks - 1)
        assert (x == ranks - 1).all()
        parts = [torch.empty(4) for _ in range(ranks)]
        dist.all_gather(parts, torch.full((1,), float(rank)).expand(4))
        assert [part[3].item() for part in parts] == list(range(ranks))
    one_place = [torch.empty(1).expand(4) for _ in range(ranks)]
    raises("more than one element", lambda: dist.all_gather(one_place, torch.ones(4)))


def test_nonfinite_values_are_summed_as_they_are():
    x = torch.tensor([float("inf"), 1.0, float("nan"), -float("inf")])
    dist.all_reduce(x)
    assert x[0] == float("inf") and x[1] == ranks and x[2].isnan() and x[3] == -float("inf"), x


def test_reduce_scatter():
    for dtype in (*floats, torch.int32, torch.int64):
        for values in sizes:
            whole, x, y = whole_numbers(values * ranks, dtype), *torch.empty(2, values, dtype=dtype)
            before = whole.clone()
            dist.reduce_scatter_tensor(x, whole)
            alike(whole, before)
            dist.reduce_scatter_tensor(y, whole, group=gloo)
            alike(x, y)
    x = torch.empty(500)
    dist.reduce_scatter_tensor(x, torch.full((500 * ranks,), float(ranks * rank)), dist.ReduceOp.AVG)
    assert (x == sum(range(ranks))).all()


def test_all_gather():
    for dtype in (*floats, torch.int64, torch.bool, torch.complex64):
        for values in sizes:
            mine = whole_numbers(values, dtype)
            x, y = torch.empty(2, values * ranks, dtype=dtype)
            dist.all_gather_into_tensor(x, mine)
            dist.all_gather_into_tensor(y, mine, group=gloo)
            alike(x, y)
            parts = [torch.empty_like(mine) for _ in range(ranks)]
            dist.all_gather(parts, mine)
            alike(torch.cat(parts), y)


def test_broadcast_and_barrier():
    for root in range(ranks):
        for dtype in (*floats, torch.int64, torch.bool):
            for values in (*sizes, 1_000_000):
                x = whole_numbers(values, dtype)
                dist.broadcast(x, root)
                alike(x, whole_numbers(values, dtype, root))
    dist.barrier()


def test_the_rest_is_gloos():
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    assert x == ranks - 1
    everybody = [None] * ranks
    dist.all_gather_object(everybody, {"rank": rank})
    assert everybody == [{"rank": r} for r in range(ranks)]
    x = torch.ones(3)
    dist.reduce(x, 0)
    assert rank > 0 or (x == ranks).all()
    if ranks > 1:
        if rank == 0:
            dist.send(torch.full((2,), 5.0), 1)
        if rank == 1:
            x = torch.empty(2)
            dist.recv(x, 0)
            assert (x == 5).all()
    x, mine = torch.empty(ranks), torch.full((ranks,), float(rank))
    dist.all_to_all_single(x, mine)
    assert x.tolist() == list(range(ranks))
    parts = [torch.full((2,), float(r)) for r in range(ranks)]
    x = torch.empty(2)
    dist.scatter(x, parts if rank == 0 else None, 0)
    assert (x == rank).all()


def test_receiving_from_any_rank_returns_its_number():
    if rank == 0:
        sources = []
        for _ in range(ranks - 1):
            x = torch.empty(2)
            sources.append(dist.recv(x))
            assert (x == sources[-1]).all()
        assert sorted(sources) == list(range(1, ranks))
    else:
        dist.send(torch.full((2,), float(rank)), 0)


def test_messages_in_a_batch():
    x = torch.empty(3)
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    mine = torch.full((3,), float(rank))
    if ranks > 1:
        batch = [dist.P2POp(dist.isend, mine, to), dist.P2POp(dist.irecv, x, source)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        assert (x == source).all()


def test_monitored_barrier():
    begin = time.monotonic()
    if rank == ranks - 1:
        time.sleep(0.2)
    dist.monitored_barrier(timeout=timedelta(seconds=20), wait_all_ranks=True)
    assert ranks == 1 or time.monotonic() - begin > 0.1


def test_averages_of_integers_are_rounded_towards_zero():
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        signed = dtype.is_signed
        x = torch.tensor([[100, 8], [-1 if signed else 1, rank]], dtype=dtype).t()
        mean = (ranks - 1) // 2
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        alike(x, torch.tensor([[100, 8], [-1 if signed else 1, mean]], dtype=dtype).t())
        x = torch.tensor(-(rank % 2) if signed else rank % 2).to(dtype)
        dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True).wait()
        assert x == 0
        part = torch.empty(1, dtype=dtype)
        whole = torch.full((ranks,), 7, dtype=dtype)
        dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.AVG)
        assert part.dtype == dtype and part == 7


def test_profiles_have_an_entry_per_collective():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x, whole = torch.ones(1000), torch.empty(1000 * ranks)
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.all_gather_into_tensor(whole, x)
        dist.reduce_scatter_tensor(x, whole)
        dist.broadcast(x, 0)
        dist.barrier()
    found = {one.key: one.count for one in profile.key_averages() if one.key.startswith("hcomp:")}
    names = ("all_gather", "all_reduce", "barrier", "broadcast", "reduce_scatter")
    assert found == {f"hcomp:{name}": 2 if name == "all_reduce" else 1 for name in names}, found


def test_works_have_the_methods_of_gloos():
    for name in ("all_reduce", "barrier", "reduce"):
        tensors = {"all_reduce": [torch.ones(3)], "barrier": [], "reduce": [torch.ones(3), 0]}[name]
        work = getattr(dist, name)(*tensors, async_op=True)
        end = time.monotonic() + 20
        while not work.is_completed():
            assert time.monotonic() < end
            time.sleep(0.001)
        assert work.is_success() and work.exception() is None
        assert len(work.result()) == min(1, len(tensors))
        if tensors and rank == 0:
            assert (work.result()[0] == ranks).all()
    native = dist.all_reduce(torch.ones(3), group=gloo, async_op=True)
    native.wait()
    assert native.is_completed() and (native.result()[0] == ranks).all()


def test_callbacks_may_wait_for_later_collectives():
    def summed_again(future):
        x = future.value()[0]
        return dist.all_reduce(x, async_op=True).get_future().wait()

    def summed_once_more(future):
        x = future.value()[0]
        dist.all_reduce(x)
        dist.barrier()
        return [x]

    x = torch.ones(1_000_000)
    future = dist.all_reduce(x, async_op=True).get_future()
    for step in (summed_again, summed_once_more, summed_again, summed_again):
        future = future.then(step)
    assert (future.wait()[0] == ranks**5).all()


def test_several_in_flight():
    tensors = [torch.full((10_000 * i + 1,), float(i)) for i in range(8)]
    works = [dist.all_reduce(x, async_op=True) for x in tensors]
    gathered = torch.empty(ranks)
    works.append(dist.all_gather_into_tensor(gathered, torch.tensor([float(rank)]), async_op=True))
    for work in reversed(works):
        work.wait()
        assert work.get_future().done()
    for i, x in enumerate(tensors):
        assert (x == i * ranks).all()
    assert gathered.tolist() == list(range(ranks))
    x = torch.ones(4)
    doubled = dist.all_reduce(x, async_op=True).get_future().then(lambda done: 2 * done.value()[0])
    assert (doubled.wait() == 2 * ranks).all()


def test_started_all_reduces_have_the_bits_of_others():
    """With some blocking calls among them, in the order of the calls."""
    if ranks == 1:
        return
    hcomp.torch.compress(None, "fp16", min_bytes=1000)
    sizes = (5000, 20, 70_001, 0, 300_000, 999, 4096) * 3

    def made(is_async):
        generator = torch.Generator().manual_seed(rank)
        tensors = [torch.randn(size, generator=generator) for size in sizes]
        parts = [torch.empty(size // 3) for size in sizes]
        whole = torch.randn(300_000 // 3 * ranks, generator=generator)
        works = []
        for i, (x, part) in enumerate(zip(tensors, parts)):
            asked = is_async and i % 5 != 4
            works.append(dist.all_reduce(x, async_op=asked))
            if i % 3 == 0:
                works.append(dist.reduce_scatter_tensor(part, whole[: part.numel() * ranks], async_op=asked))
        for work in filter(None, works):
            work.wait()
        return tensors + parts[::3]

    for found, expected in zip(made(True), made(False)):
        alike(found, expected)
    hcomp.torch.compress(None, None)


def test_a_started_all_reduce_of_another_size_on_one_rank_is_an_error_on_all():
    if ranks == 1:
        return
    good, bad = torch.ones(100), torch.ones(50 if rank == 1 else 60)
    works = [dist.all_reduce(x, async_op=True) for x in (good, bad, good)]
    works[0].wait()
    raises("all_reduce of 50 values", works[1].wait, hcomp.HcompError)
    failed = works[1].get_future()
    assert failed.done()
    raises("all_reduce of 50 values", failed.wait)
    works[2].wait()
    alike(good, torch.full((100,), float(ranks * ranks)))
    raises("all_reduce of 50 values", lambda: dist.all_reduce(bad), hcomp.HcompError)


def test_what_nobody_waits_for_is_made():
    x = [torch.full((3000, 2), float(i)).t() for i in range(20)]
    futures = [dist.all_reduce(one, async_op=True).get_future() for one in x]
    end = time.monotonic() + 20
    while not all(one.done() for one in futures):
        assert time.monotonic() < end
        time.sleep(0.01)
    for i, one in enumerate(x):
        assert (one == i * ranks).all()


def test_subgroups():
    pairs = [(a, b) for a in range(ranks) for b in range(a + 1, ranks)]
    groups = [dist.new_group(list(pair)) for pair in pairs]
    for pair, group in zip(pairs, groups):
        if rank in pair:
            x = torch.full((1000,), float(rank))
            dist.all_reduce(x, group=group)
            assert (x == sum(pair)).all()
            x = torch.full((10,), float(rank))
            dist.broadcast(x, pair[1], group=group)
            assert (x == pair[1]).all()
    for pair, group in zip(pairs, groups):
        if rank in pair:
            dist.destroy_process_group(group)


def test_split_groups():
    if ranks == 1:
        return
    pair = dist.split_group(split_ranks=[[1, 0]], timeout=timedelta(seconds=40))
    if rank > 1:
        assert pair is dist.GroupMember.NON_GROUP_MEMBER
        return
    assert dist.get_rank(pair) == 1 - rank and dist.get_process_group_ranks(pair) == [1, 0]
    backend = hcomp.torch.backend_of(pair)
    assert backend.options._timeout == timedelta(seconds=40)
    x = torch.full((1000,), float(rank))
    dist.all_reduce(x, group=pair)
    assert (x == 1).all()
    assert backend.last_report is not None
    dist.destroy_process_group(pair)


def test_a_back_end_supports_what_it_says():
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_splitting and backend.options._timeout > timedelta(0)
    for name in ("coalescing", "reconfigure", "shrinking", "window"):
        assert not getattr(backend, f"supports_{name}"), name
    assert not backend._supports_time_estimate


def test_pipelines():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(0)
    stages = [torch.nn.Linear(8, 8) for _ in range(ranks)]
    x = torch.randn(12, 8)
    expected = torch.nn.Sequential(*stages)(x).square().mean()
    stage = PipelineStage(stages[rank], rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda y, _: y.square().mean())
    losses = []
    given = {"target": torch.zeros(12, 8), "losses": losses} if rank == ranks - 1 else {}
    schedule.step(*([x] if rank == 0 else []), **given)
    if losses:
        assert torch.allclose(torch.stack(losses).mean(), expected, rtol=1e-4), losses


def test_compress():
    if ranks == 1:
        return  # rules apply to two ranks and more
    generator = torch.Generator().manual_seed(7 + rank)
    gradient = torch.randn(100_000, generator=generator)
    exact = gradient.double()
    dist.all_reduce(exact, group=gloo)

    def off(x):
        dist.all_reduce(x)
        return float((x - exact).norm() / exact.norm()), backend.last_report.bytes_sent

    backend = hcomp.torch.backend_of()
    error, sent = off(gradient.clone())
    assert error < 1e-6 and sent == 0  # inside a node it uses shared memory
    hcomp.torch.compress(None, "thc:bits=4,feedback=no", min_bytes=1000)
    error, sent = off(gradient.clone())
    # a sum of 3 ranks of 4 bits each takes 6 of 32 bits, plus headers
    raw = 4 * gradient.numel() * 2 * (ranks - 1) / ranks
    assert 0 < error < 0.2 and 0 < sent < raw / 4, (error, sent, raw)
    small = torch.full((100,), 1 / 3)
    dist.all_reduce(small)
    assert torch.allclose(small, torch.full((100,), ranks / 3), rtol=1e-6)
    half = (gradient[:5000] / 8).to(torch.float16)  # rules are for float32 and float64
    dist.all_reduce(half)
    assert float((half.double() - exact[:5000] / 8).abs().max()) < 4 * 2**-11 * ranks
    part = torch.empty(gradient.numel() // ranks)
    dist.reduce_scatter_tensor(part, gradient[: part.numel() * ranks].clone())
    mine = exact[rank * part.numel() :][: part.numel()]
    assert 0 < float((part - mine).norm() / mine.norm()) < 0.2
    raises("no codec is called 'gzip'", lambda: hcomp.torch.compress(None, "gzip"))
    if ranks > 1:
        mixed = "fp16" if rank else "bf16"
        raises("ranks have different settings", lambda: hcomp.torch.compress(None, mixed))
    hcomp.torch.compress(None, None)
    assert off(gradient.clone())[0] < 1e-6


def test_sizes_that_do_not_fit_are_refused():
    raises(
        "7 values of torch.float32 are not",
        lambda: dist.reduce_scatter_tensor(torch.empty(2), torch.empty(7)),
    )
    raises(
        "are not",
        lambda: dist.all_gather_into_tensor(torch.empty(2 * ranks, dtype=torch.int64), torch.empty(2)),
    )
    for shape in ((1,), (2, 2), (5,)):
        parts = [torch.zeros(4) for _ in range(ranks)]
        is_async = shape == (5,)
        raises(
            f"shape (4,) and torch.float32, the input {shape}",
            lambda: dist.all_gather(parts, torch.ones(shape), async_op=is_async),
            RuntimeError,
        )
    raises(
        f"{ranks + 1} outputs, the group has {ranks} ranks",
        lambda: dist.all_gather([torch.zeros(4) for _ in range(ranks + 1)], torch.ones(4)),
        RuntimeError,
    )


def trained(wrap, group, steps=6):
    """Returns the losses of a small model whose second branch has no gradient in odd steps."""
    torch.manual_seed(0)
    model = torch.nn.ModuleDict(
        {
            "first": torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 1)),
            "second": torch.nn.Linear(40, 1),
        }
    )

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x, both):
            return self.parts["first"](x) + (self.parts["second"](x) if both else 0)

    wrapped = wrap(Both(), group)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + dist.get_rank(group))
    losses = []
    for step in range(steps):
        x = torch.randn(16, 40, generator=generator)
        loss = (wrapped(x, step % 2 == 0) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return torch.tensor(losses)


def data_parallel(model, group):
    return DistributedDataParallel(model, process_group=group, find_unused_parameters=True)


def test_ddp_has_the_losses_of_gloo():
    alike_within_rounding(trained(data_parallel, None), trained(data_parallel, gloo))
    if ranks > 1:  # two summands have only one order: the same bits
        pair, gloo_pair = dist.new_group([0, 1]), dist.new_group([0, 1], backend="gloo")
        if rank < 2:
            alike(trained(data_parallel, pair), trained(data_parallel, gloo_pair))


def alike_within_rounding(found, expected):
    assert torch.allclose(found, expected, rtol=1e-4), (found, expected)


def test_a_hook_that_waits_in_callbacks_has_the_losses_of_gloo():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    def losses(group):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 1))
        ddp = DistributedDataParallel(model, process_group=group)
        state = powerSGD_hook.PowerSGDState(group, 2, start_powerSGD_iter=2, min_compression_rate=1)
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        found = []
        for step in range(6):
            x = torch.randn(16, 40, generator=torch.Generator().manual_seed(10 * step + rank))
            loss = (ddp(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return torch.tensor(found)

    alike_within_rounding(losses(None), losses(gloo))


def test_accumulated_gradients_are_summed_once():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
    with model.no_sync():
        model(torch.full((1, 4), float(rank))).sum().backward()
    alike(model.module.weight.grad, torch.full((1, 4), float(rank)))
    model(torch.full((1, 4), 1.0)).sum().backward()
    alike(model.module.weight.grad, torch.full((1, 4), 1 + (ranks - 1) / 2))


def test_fsdp_has_the_losses_of_gloo():
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    def sharded(model, group):
        mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
        fully_shard(model.parts["first"], mesh=mesh)
        return fully_shard(model, mesh=mesh)

    alike_within_rounding(trained(sharded, None), trained(sharded, gloo))


class Reducing(torch.utils.data.Dataset):
    """Items are errors of collectives in a forked worker of a DataLoader."""

    def __len__(self):
        return 2

    def __getitem__(self, item):
        try:
            dist.all_reduce(torch.ones(5), async_op=bool(item))
        except hcomp.HcompError as error:
            return str(error)
        return "no error"


def test_forked_workers_of_a_data_loader_are_refused():
    loader = torch.utils.data.DataLoader(Reducing(), num_workers=1, multiprocessing_context="fork")
    for (said,) in loader:
        assert "is a fork" in said, said
    x = torch.ones(5)
    dist.all_reduce(x)
    alike(x, torch.full((5,), float(ranks)))


run_tests(globals(), "the back end")
