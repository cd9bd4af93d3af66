"""Accelerate, Lightning and Transformers with hcomp's hook: the examples learn, send fewer bytes,
and a resumed run equals an uninterrupted one. Started by torchrun, on any number of ranks."""

import importlib.metadata
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch.distributed as dist
from on_ranks import run_tests

top = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(top / "examples" / "torch"))
dist.init_process_group("gloo")


def shared_folder():
    names = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    return names[0]


def learns_and_resumes(train):
    file = top / "LICENSE"
    whole, ratio = train(file, 15, shared_folder())
    assert len(whole) == 15 and sum(whole[-3:]) / 3 < whole[0] - 0.5, whole
    assert ratio > 2, ratio
    folder = shared_folder()
    first, _ = train(file, 10, folder)
    assert first == whole[:10], (first, whole)
    last, _ = train(file, 15, folder, True)
    assert last[-5:] == whole[10:], (last, whole)


def test_accelerate():
    import with_accelerate

    learns_and_resumes(with_accelerate.train)


def test_lightning():
    import with_lightning

    learns_and_resumes(with_lightning.train)


def test_transformers():
    import with_transformers

    learns_and_resumes(with_transformers.train)


names = ("accelerate", "lightning", "transformers", "torch")
versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
run_tests(globals(), versions)
