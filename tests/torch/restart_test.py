"""torch.distributed is initialised several times with one store. Started by torchrun."""

import os

import torch
import torch.distributed as dist

for step in range(3):
    dist.init_process_group("cpu:hcomp")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pair = dist.new_group([0, 1])
    x = torch.ones(5)
    dist.all_reduce(x)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)  # by Gloo
    assert (x == ranks).all(), x
    if rank < 2:
        dist.all_reduce(x, group=pair)
        assert (x == 2 * ranks).all(), x
    dist.destroy_process_group()
print(f"rank {os.environ['RANK']}: initialised 3 times")
