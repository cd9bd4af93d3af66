"""Elastic training. Ranks are plain processes; some are killed."""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import hcomp
import hcomp.torch

top = Path(__file__).resolve().parents[2]
example = top / "examples" / "torch" / "elastic.py"
sys.path.insert(0, str(top / "tests" / "python"))

from ranks import Ranks  # noqa: E402


class Net(torch.nn.Module):
    """A large matrix, small parameters (one without gradient, one not trained), a buffer."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 96)
        self.norm = torch.nn.BatchNorm1d(96)
        self.second = torch.nn.Linear(96, 4).to(torch.bfloat16)
        self.unused = torch.nn.Linear(4, 4, bias=False)
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x):
        return self.second(torch.tanh(self.norm(self.first(x))).to(torch.bfloat16)).float()


def bits_of(state):
    """Returns the complete contents of a state, for comparison."""
    if isinstance(state, torch.Tensor):
        return str(state.dtype), state.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    if isinstance(state, dict):
        return {key: bits_of(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [bits_of(value) for value in state]
    return state


def train(number, directory, newcomer):
    """Until the new rank has made 20 steps with the other ranks."""
    if number == newcomer:
        group = hcomp.ElasticGroup.join(directory, timeout=60)
    else:
        group = hcomp.ElasticGroup(directory, number, newcomer, timeout=60)
    torch.manual_seed(number)  # all ranks receive rank 0's parameters
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9)
    training = hcomp.torch.ElasticTraining(
        group, model, optimizer, scheduler, codec="thc:bits=4", min_values=1000
    )
    assert (training.step > 0) == (number == newcomer)
    frozen = model.frozen.weight.clone()
    goal = torch.linspace(-1, 1, 4)
    weights, losses = [], []
    until = training.step + 20 if number == newcomer else 10**6
    while training.step < until:
        random = torch.Generator().manual_seed(1000 * training.step + group.rank)
        x = torch.randn(16, 64, generator=random)
        loss = (model(x) - goal).square().mean()
        loss.backward()
        weights.append(training.average_gradients().weight)
        if weights[-1] == 2:
            Path(directory, "two").touch()
        assert model.unused.weight.grad.eq(0).all() and model.frozen.weight.grad is None
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if training.step == 5:
            Path(directory, "five").touch()
        time.sleep(0.005)
        if training.step % 5 == 0 and training.admit():
            until = training.step + 20
    assert model.frozen.weight.equal(frozen)
    made = bits_of({**training.state_dict(), "weights": weights[-20:]})
    # running means depend on the data of each rank
    for name in ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"):
        del made["model"][name]
    lost = group.lost
    training.close()
    group.close()
    return made, lost, weights, losses


def test_those_who_are_left_and_a_newcomer_have_the_same_bits():
    with Ranks(train, 3) as ranks:
        results = ranks.results_where_one_is_replaced()
    made, lost, weights, losses = results[0]
    assert lost == (1,) and results[2][1] == (1,), (lost, results[2][1])
    for number in (2, 3):
        assert results[number][0] == made, f"process {number} is not where process 0 is"
    assert made["weights"] == [3] * 20, made["weights"]
    assert weights[0] == 3 and 2 in weights and losses[-1] < losses[0] / 2, (weights, losses)


def train_as_documented(number, directory):
    """The loop of help(ElasticTraining), which begins with admit(); process 2 joins."""
    if number == 2:
        group = hcomp.ElasticGroup.join(directory, timeout=60)
    else:
        group = hcomp.ElasticGroup(directory, number, 2, timeout=60)
    model = torch.nn.Linear(100, 100)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    training = hcomp.torch.ElasticTraining(group, model, optimizer, codec="thc:bits=4")
    joined_at, admitted, steps = training.step, [], 10**6
    while training.step < steps:
        if training.step % 3 == 0:
            if training.admit():
                admitted.append(training.step)
                steps = training.step + 20
        model(torch.randn(4, 100)).square().mean().backward()
        weight = training.average_gradients().weight
        optimizer.step()
        optimizer.zero_grad()
        if training.step == 5:
            Path(directory, "five").touch()
        time.sleep(0.005)
    made = bits_of(training.state_dict())
    training.close()
    group.close()
    return made, weight, admitted, joined_at


def test_a_newcomer_may_begin_with_admit():
    with Ranks(train_as_documented) as ranks:
        ranks.start(0, 1)
        ranks.wait_for("five")
        ranks.start(2)
        results = ranks.results(3)
    made, _, admitted, _ = results[0]
    assert len(admitted) == 1 and results[2][3] == admitted[0], results[2][3]
    for one in results.values():
        assert one[:3] == (made, 3, admitted), one[1:]


def means(number, directory):
    group = hcomp.ElasticGroup(directory, number, 3)
    model = torch.nn.ModuleDict({"large": torch.nn.Linear(64, 64), "small": torch.nn.Linear(3, 1)})
    training = hcomp.torch.ElasticTraining(group, model, codec="thc:bits=4")
    large, small = model["large"].weight, model["small"].weight
    small.grad = torch.full_like(small, number)
    large.grad = torch.full_like(large, number)
    report = training.average_gradients()
    made = [report.weight, report.bytes_sent > 0, small.grad.unique().tolist(), large.grad.mean().item()]
    made.append(model["small"].bias.grad.tolist())
    if number == 1:
        large.grad[0, 0] = float("inf")
    small.grad.fill_(1)
    training.average_gradients()
    made += [large.grad.isnan().all().item(), small.grad.unique().tolist(), training.step]
    large.grad.fill_(number)
    training.average_gradients()
    made.append(large.grad.mean().item())
    before = training.state_dict()
    try:
        training.load_state_dict({**before, "others": [1]})
    except ValueError as error:
        made.append(str(error))
    training.load_state_dict({**before, "step": 7})
    made.append(training.step)
    training.close()
    try:
        hcomp.torch.ElasticTraining(group, torch.nn.Linear(2, 2).double())
    except TypeError as error:
        made.append(str(error))
    group.close()
    return made


def test_means_and_what_is_wrong():
    with Ranks(means) as ranks:
        ranks.start(0, 1, 2)
        results = ranks.results(3)
    for made in results.values():
        weight, sent, small, large, nothing, is_nan, one, steps, again, words, seven, refused = made
        assert (weight, sent, small, nothing) == (3, True, [1.0], [0.0]), made
        assert abs(large - 1) < 0.1 and abs(again - 1) < 0.1, made
        assert is_nan and one == [1.0] and steps == 2 and seven == 7, made
        assert "1 objects beside the model, here are 0" in words, words
        assert "a parameter of torch.float64" in refused, refused


def test_the_example():
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory) / "run"

        def start(*words):
            command = [sys.executable, example, directory, *words, *sizes]
            return subprocess.Popen(
                list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )

        sizes = ("--steps", 400, "--pause", 0.02, "--timeout", 90)
        ranks = [start(rank, 3) for rank in range(3)] + [start("join")]
        try:
            lines = [ranks[0].stdout.readline() for _ in range(2)]
            assert "rank 0 of 3, called 0), at step 0" in lines[0], lines
            assert "step 50: a mean over" in lines[1], lines
            ranks[1].kill()
            said = [ranks[number].communicate(timeout=120)[0] for number in (0, 2, 3)]
        finally:
            for one in ranks:
                one.kill()
                one.communicate()
    for words in said:
        print(words, file=sys.stderr)
    ends = {words.splitlines()[-1] for words in said}
    assert len(ends) == 1, said
    loss = re.fullmatch(r"held-out loss (\S+), parameters [0-9a-f]{16}", ends.pop())[1]
    assert float(loss) < 0.2, loss
    assert "step 400: a mean over 3 ranks, lost (1,)" in said[0], said
    assert re.match(r".*rank . of ., called \d+\), at step [1-9]", said[2]), said


if __name__ == "__main__":
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
    print(f"{len(tests)} tests of training that outlives ranks, PyTorch {torch.__version__}")
