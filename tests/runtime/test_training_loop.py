"""The loop that all training shares: learns, keeps its budget, resumes to the bit after any kill."""

import os
import shutil
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from runtime import training_loop as loop_module
from runtime.errors import UserError
from runtime.files import lock_folder, read_record, write_record
from runtime.training_loop import Schedule, TrainingLoop
from runtime.training_state import FILES, Checkpoint, Checkpoints, Position, TrainingState
from runtime.training_step import GradientDescent, StepMetrics, Steps, cosine_decay
from tests.fixtures.files import differing
from tests.fixtures.kills import dies_at


class Regression:
    """A least-squares task with dropout: tiny, but with all the state that a model has."""

    def __init__(self, rate: float = 0.05) -> None:
        torch.manual_seed(1)
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(60, 4, generator=generator)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
        module = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 1))
        adam = torch.optim.Adam(module.parameters())
        self.descent: GradientDescent[list[int]] = GradientDescent(
            module, adam, self.losses, self.learning_rate, clip=5.0
        )
        self.module, self.rate = module, rate
        self.step, self.steps = self.descent.step, Steps(self.batches, lambda batch: batch)

    def batches(self, epoch: int) -> list[list[int]]:
        order = torch.randperm(60, generator=torch.Generator().manual_seed(epoch)).tolist()
        return [order[first : first + 12] for first in range(0, 60, 12)]

    def losses(self, batch: list[int]) -> dict[str, torch.Tensor]:
        return {"loss": (self.module(self.x[batch]) - self.y[batch]).square().mean()}

    def learning_rate(self, position: Position) -> float:
        return self.rate * cosine_decay(position.progress)

    def evaluate(self) -> dict[str, float]:
        return {"score": -float((self.module(self.x) - self.y).square().mean())}


@pytest.fixture(scope="module", autouse=True)
def a_checkpoint_at_each_step():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_module, "CHECKPOINT_S", 0.0)
        yield


class Run(TrainingLoop):
    """The loop of a task."""

    def __init__(self, task: Regression, schedule: Schedule, folder: Path, **options) -> None:
        self.task, state = task, TrainingState(task.module, task.descent, schedule.begin(task.steps))
        super().__init__(state, task.steps, schedule, folder, **options)

    def __call__(self) -> int:
        return self.run(self.task.step, self.task.evaluate)


def make(folder: Path, rate: float = 0.05, **plan) -> Run:
    schedule = Schedule(**{"epochs": 4, "select": "score", **plan})
    return Run(Regression(rate), schedule, folder, identity={"rate": rate})


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert make(folder)() == 0
    return folder


def test_training_learns_and_keeps_the_best(tmp_path: Path) -> None:
    loop = make(tmp_path, epochs=20, evaluate_first=True)
    assert loop() == 0
    rows = loop.history
    assert [row["epoch"] for row in rows] == [0, *range(20)] and [r["step"] for r in rows][:3] == [0, 5, 10]
    assert rows[-1]["loss"] < 0.2 * rows[1]["loss"] and "loss" not in rows[0]
    loop.load_best()
    with torch.no_grad():
        score = loop.task.evaluate()["score"]
    assert score == max(row["score"] for row in rows) == loop.position.best["score"]
    size = (tmp_path / "log.jsonl").stat().st_size
    assert make(tmp_path, epochs=20, evaluate_first=True)() == 0, "a finished run is left alone"
    assert (tmp_path / "log.jsonl").stat().st_size == size


def test_a_score_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    loop = make(tmp_path, evaluate_first=True)
    with pytest.raises(UserError, match=r"step 0: score nan; stopped before the update"):
        loop.run(loop.task.step, lambda: {"score": float("nan")})


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path, finished_run: Path) -> None:
    with dies_at(7):
        make(tmp_path)()
    with open(tmp_path / "log.jsonl", "a") as log:
        log.write('{"kind": "tra')  # cut off
    resumed = make(tmp_path)
    torch.rand(3)  # of the caller
    resumed()
    assert not differing(finished_run, tmp_path, clocks=False)


def test_a_run_and_its_checkpoints_leave_torchs_random_state_to_the_caller(tmp_path: Path) -> None:
    for steps in (7, 20):  # a new run and a resumed one
        loop = make(tmp_path, max_steps=steps)
        torch.manual_seed(8)
        before = torch.get_rng_state()
        assert loop() == 0
        loop.load_best()
        Checkpoints(tmp_path / "checkpoints", 2).load_newest()
        assert torch.equal(torch.get_rng_state(), before)


def test_ctrl_c_leaves_a_checkpoint(tmp_path: Path, finished_run: Path, monkeypatch) -> None:
    loop = make(tmp_path)
    monkeypatch.setattr(loop_module, "CHECKPOINT_S", 60.0)
    step = loop.task.step

    def interrupted(position: Position, batch: list[int]) -> StepMetrics:
        if position.step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(position, batch)

    loop.task.step = interrupted
    assert loop() == 130 and loop.position.step == 4
    monkeypatch.undo()
    make(tmp_path)()
    assert not differing(finished_run, tmp_path, clocks=False)


def test_a_thread_trains_and_the_callers_handlers_stay(tmp_path: Path, finished_run: Path) -> None:
    """Signals belong to the main thread: there a handler is set and put back, elsewhere there is none."""
    handlers = [signal.getsignal(number) for number in loop_module.SIGNALS]
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(make(tmp_path)()))
    thread.start()
    thread.join()
    assert codes == [0] and not differing(finished_run, tmp_path, clocks=False)
    assert [signal.getsignal(number) for number in loop_module.SIGNALS] == handlers


@pytest.mark.parametrize("change", ["removed", "renamed"])
@pytest.mark.parametrize("moment", ["step", "evaluate"])
def test_a_folder_that_is_removed_while_a_run_writes_there_is_not_made_again(
    tmp_path: Path, moment: str, change: str
) -> None:
    loop = make(tmp_path / "run")
    original = getattr(loop.task, moment)

    def interrupted(*arguments):
        if change == "removed":
            shutil.rmtree(tmp_path / "run")
        else:
            (tmp_path / "run").rename(tmp_path / "elsewhere")
        return original(*arguments)

    setattr(loop.task, moment, interrupted)
    with pytest.raises(UserError, match="was removed or renamed while"), lock_folder(tmp_path / "run"):
        loop()
    assert not (tmp_path / "run").exists()


def test_damaged_and_unwritten_checkpoints(tmp_path: Path, finished_run: Path, monkeypatch, caplog) -> None:
    make(tmp_path / "damaged")()
    newest = Checkpoints(tmp_path / "damaged" / "checkpoints", 2).folders()[-1]
    (newest / "optimiser.safetensors").write_bytes(b"")
    make(tmp_path / "damaged")()
    assert "is damaged and skipped" in caplog.text
    assert not differing(finished_run, tmp_path / "damaged", clocks=False)

    def full(self: Checkpoints, step: int, checkpoint: Checkpoint) -> None:
        if self.folder.name == "checkpoints":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "write", full)
    assert make(tmp_path / "full")() == 0
    assert "training goes on" in caplog.text


def test_budgets_of_steps_and_evaluations(tmp_path: Path) -> None:
    for name, plan, steps in (("a", {"max_steps": 7}, [5, 7]), ("b", {"evaluate_parts": 2}, [10, 20])):
        loop = make(tmp_path / name, **plan)
        assert loop() == 0 and loop.reason_to_stop() and [row["step"] for row in loop.history] == steps


def test_the_best_weights_outlive_the_checkpoint_that_says_so(tmp_path: Path) -> None:
    """A run that is killed between new best weights and their checkpoint has those that it knows of."""
    scores, loop = [1.0, 2.0], make(tmp_path)
    loop.task.evaluate = lambda: {"score": scores[len(loop.history)]}
    save = loop.save

    def save_before_step_10() -> None:
        if loop.position.step == 10:
            raise KeyboardInterrupt
        save()

    loop.save = save_before_step_10
    with pytest.raises(KeyboardInterrupt):
        loop()
    assert loop.position.best["step"] == 10
    resumption = make(tmp_path, epochs=4)
    assert resumption.is_resumed and resumption.position.best["step"] == 5
    resumption.task.evaluate = lambda: {"score": 0.5}  # as where a limit of time ends the run elsewhere
    assert resumption() == 0 and resumption.position.best["step"] == 5
    resumption.load_best()
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["step-00000005"]


def test_patience_counts_evaluations_that_are_no_better(tmp_path: Path) -> None:
    loop = make(tmp_path, epochs=30, patience=2, evaluate_first=True)
    scores = [1.0, 2.0, 2.0, 3.0, 2.5, 3.0, 9.0]
    loop.task.evaluate = lambda: {"score": scores[len(loop.history)]}
    assert loop() == 0 and "patience: 2 evaluations in a row" in loop.reason_to_stop()
    assert [row["score"] for row in loop.history] == scores[:6] and loop.position.best["score"] == 3.0


def test_the_first_process_says_for_all_which_weights_are_best(tmp_path: Path) -> None:
    """Another process whose scores differ in their last bits follows it, and writes nothing."""

    best = [1.0, 0.0, 0.0]
    second = SimpleNamespace(
        is_first=False, sum_on_hosts=lambda values: [best.pop(0)] if len(values) == 1 else values
    )
    schedule = Schedule(epochs=9, patience=2, select="score")
    loop = Run(Regression(), schedule, tmp_path, identity={}, processes=second)
    assert loop() == 0 and "patience" in loop.reason_to_stop()
    assert (loop.position.step, loop.position.best["step"]) == (15, 5) and not list(tmp_path.iterdir())


def test_a_time_budget_ends_in_time_and_can_be_raised(tmp_path: Path) -> None:
    loop = make(tmp_path, epochs=100_000, max_minutes=0.005)
    assert loop() == 0 and "time limit" in loop.reason_to_stop()
    assert loop.history[-1]["step"] == loop.position.step
    assert make(tmp_path, epochs=100_000, max_minutes=0.005).reason_to_stop()
    assert not make(tmp_path, epochs=100_000, max_minutes=5).reason_to_stop()


def test_an_option_that_a_checkpoint_does_not_know_had_its_default(tmp_path: Path) -> None:
    """Such a run is resumed, with the fields of its position that it has; another value is refused."""
    make(tmp_path, max_steps=7)()
    newest = Checkpoints(tmp_path / "checkpoints", 2).folders()[-1]
    record = read_record(newest / "state.json", FILES)
    del record["position"]["sentences"]
    write_record(newest / "state.json", record, FILES)

    def resumed(**options: object) -> Run:
        identity, defaults = {"rate": 0.05, "model": options}, {"model": {"new": 1, "newer": 0}}
        return Run(Regression(), Schedule(epochs=4), tmp_path, identity=identity, defaults=defaults)

    assert resumed(new=1, newer=0).position.step == 7
    with pytest.raises(UserError, match=r"was made with model.newer=0, not 2; give another --output"):
        resumed(new=1, newer=2)


def test_what_stops_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"step \d: .*norm of the gradient nan; stopped before"):
        make(tmp_path / "diverged", rate=1e30)()
    make(tmp_path / "one", epochs=1)()
    with pytest.raises(UserError, match=r"was made with rate=0.05, not 0.1; give another --output"):
        make(tmp_path / "one", rate=0.1)
    (tmp_path / "one" / "log.jsonl").write_text("[1]\n")
    with pytest.raises(UserError, match=r"log.jsonl, line 1: '\[1\]' is not of a training log"):
        make(tmp_path / "one", epochs=2)()
