"""A model that is sharded inside two nodes and replicated between them. Started by torchrun on four
ranks."""

import torch
import torch.distributed as dist
from on_ranks import alike, raises, run_tests, trained
from torch.distributed.fsdp import fully_shard

import hcomp.torch

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("node", "inside"))


class Run:
    """Trains under PyTorch's HSDP, or with a codec between the nodes."""

    def __init__(self, codec, **keys):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(256, 384, bias=False), torch.nn.Tanh(), torch.nn.Linear(384, 256)
        )
        over = mesh["inside"] if codec else mesh
        fully_shard(self.model[0], mesh=over)
        fully_shard(self.model, mesh=over)
        self.state = None
        if codec:
            group = mesh["node"].get_group()
            self.state = hcomp.torch.ReplicaState(self.model, codec, group=group, **keys)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.5)

    def steps(self, first, last):
        return trained(self.model, self.optimizer, first, last)

    def shards(self):
        return torch.cat([p.to_local().reshape(-1) for p in self.model.parameters()]).detach()


def alike_on_both_nodes(x):
    both = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(both, x, mesh["node"].get_group())
    alike(*both)


def test_full_precision_has_the_losses_of_hsdp():
    run = Run("identity")
    assert torch.allclose(run.steps(0, 10), Run(None).steps(0, 10), rtol=1e-4)
    run.state.close()
    run = Run("sign", warm_up=10)
    assert torch.allclose(run.steps(0, 10), Run(None).steps(0, 10), rtol=1e-4)
    run.state.close()


def test_few_bits_learn_and_replicas_agree():
    for codec, least in (("thc:bits=4", 4), ("sign", 20), ("bf16", 1.9)):
        run = Run(codec)
        losses = run.steps(0, 30)
        assert losses[-3:].mean() < losses[:3].mean(), (codec, losses)
        alike_on_both_nodes(run.shards())
        report = run.state.report()
        assert report.steps == 30 and report.ratio > least, (codec, report)
        run.state.close()


def test_a_restart_goes_on_bit_for_bit():
    run = Run("thc:bits=4", full_every=5)
    run.steps(0, 3)
    saved = {k: v.clone() for k, v in run.model.state_dict().items()}
    state = run.state.state_dict()
    assert set(state["residuals"]) == {"0", "model"} and state["step"] == 3, state
    whole = run.steps(3, 8)
    run.state.close()
    run = Run("thc:bits=4", full_every=5)
    run.model.load_state_dict(saved)
    run.state.load_state_dict(state)
    alike(run.steps(3, 8), whole)
    run.state.close()


def test_what_is_wrong_is_said():
    group = mesh["node"].get_group()
    model = torch.nn.Linear(8, 8)
    raises(
        "fully_shard was not called",
        lambda: hcomp.torch.ReplicaState(model, group=group),
        TypeError,
    )
    fully_shard(model, mesh=mesh["inside"])
    raises(
        "differ between ranks",
        lambda: hcomp.torch.ReplicaState(model, "sign" if rank < 2 else "bf16", group=group),
        ValueError,
    )


run_tests(globals(), "HSDP")
