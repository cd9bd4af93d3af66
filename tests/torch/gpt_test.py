"""The example that trains a GPT: the model learns, and a resumed run equals an uninterrupted one.

Started by torchrun, on any number of ranks. All runs happen in these processes, because importing
PyTorch takes longer than a run.
"""

import json
import sys
import tempfile
import threading
from pathlib import Path

import torch
import torch.distributed as dist

top = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(top / "examples" / "torch"))

import gpt  # noqa: E402

no_gpu = not torch.cuda.is_available()
dist.init_process_group("gloo")
rank = dist.get_rank()
sizes = ["--quick", "--steps", "12", "--every", "3", "--data", str(top / "LICENSE")]
names = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(names)
folder = Path(names[0])


def run(name, *arguments, interrupted=False):
    """Returns the history without entries that differ from run to run."""
    event = threading.Event()
    if interrupted and rank == 0:
        event.set()
    file = folder / f"{name}.json"
    gpt.Training(gpt.options([*sizes, "--json", str(file), *arguments])).run(event)
    dist.barrier()
    history = json.loads(file.read_text())["history"]
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in history]


def test_it_learns_and_goes_on_bit_by_bit():
    checkpoint = ("--checkpoint", str(folder / "checkpoint"))
    assert [entry["step"] for entry in straight] == [3, 6, 9, 12]
    for loss in ("training_loss", "validation_loss"):  # they fall by 1.2 and 0.7 nats
        assert straight[-1][loss] < straight[0][loss] - 0.5, straight

    first = run("first", *checkpoint, "--stop-at", "6")
    assert first == straight[:2], (first, straight)
    resumed = run("resumed", *checkpoint, "--resume")
    assert resumed == straight, (resumed, straight)


def test_interrupted_on_one_rank_it_ends_on_all_and_goes_on():
    checkpoint = ("--checkpoint", str(folder / "interrupted"))
    ended = run("ended", *checkpoint, interrupted=True)
    assert [entry["step"] for entry in ended] == [1]
    resumed = run("continued", *checkpoint, "--resume")
    assert resumed == straight, (resumed, straight)


def test_wrong_arguments_are_told_with_their_values():
    for arguments, words in (
        (["--width", "30"], "--width 30: no multiple of --heads 8"),
        (["--steps", "-1"], "-1 is not above 0"),
        (["--resume"], "--resume needs --checkpoint"),
        (["--device", "cuda", "--method", "marsit"], "--device cuda" if no_gpu else "--method marsit"),
        (["--method", "powersgd:rank=2", "--checkpoint", "x"], "not for powersgd"),
    ):
        try:
            gpt.options(arguments)
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{arguments} were taken")


tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
try:
    straight = run("straight")
    for test in tests:
        test()
        print(f"rank {rank}: {test.__name__}", file=sys.stderr)
finally:
    if rank == 0:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    print(f"{len(tests)} tests of the example")
