"""The hammer finds what is planted, repeats it, and finds nothing in a short run over the readers."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import time
from pathlib import Path

import pytest

from tools.hammer.__main__ import all_targets
from tools.hammer.campaign import SEEDS, Campaign, Fault, Target, once
from tools.hammer.grammar import brackets, break_json, conllu
from tools.hammer.injection import elements
from tools.hammer.processes import Child
from tools.hammer.world import World

READERS = ("brackets", "faq", "glove", "lines", "nli-tsv", "pairs", "passages", "ppdb")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("hammer"))


# Campaigns run in a process of their own: the forks of one that has used threads may hang.
def test_a_short_run_over_the_readers_finds_nothing(command) -> None:  # type: ignore[no-untyped-def]
    targets = [f"fuzz.{name}" for name in READERS]
    done = command("tools.hammer", "--targets", *targets, "--attempts", 25, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout
    counts = {row[0]: row[1] for row in re.findall(r"^\| `(\S+)` \| (\d+) ", done.stdout, re.MULTILINE)}
    assert counts == dict.fromkeys(targets, "25")


def test_a_killed_import_ends_in_the_same_bytes(command) -> None:  # type: ignore[no-untyped-def]
    done = command("tools.hammer", "--targets", "kill.import", "--attempts", 2, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same 2" in done.stdout


def planted(name: str, work) -> Target:  # type: ignore[no-untyped-def]
    return Target(name, lambda rng, folder, world: work(rng) or {"inputs": 1})


def raises(rng: random.Random) -> None:
    if rng.random() < 0.5:
        raise ValueError("planted")


def test_planted_faults_are_counted_with_the_line_that_repeats_them(world: World) -> None:
    def loses(rng: random.Random) -> None:
        raise Fault("lost: other bytes")

    targets = [planted("a.raises", raises), planted("b.loses", loses), planted("c.sound", lambda rng: None)]
    campaign = Campaign(targets, world, seed=3)
    campaign.run(attempts=12)
    assert 0 < len(campaign.tallies["a.raises"].faults) < 12
    assert len(campaign.tallies["b.loses"].faults) == 12
    assert campaign.tallies["c.sound"].seen["inputs"] == 12 and not campaign.tallies["c.sound"].faults
    lines = "\n".join(campaign.fault_lines())
    assert f"12x lost: other bytes\n    python -m tools.hammer --replay b.loses:{3 * SEEDS}" in lines
    seed = next(iter(campaign.tallies["a.raises"].faults))
    with pytest.raises(ValueError, match="planted"):
        once(targets[0], seed, world)
    assert "| `b.loses` | 12 |  | 12 |" in campaign.table()


def test_a_crash_and_a_hang_cost_the_sandbox_and_not_the_campaign(world: World) -> None:
    def crashes(rng: random.Random) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    targets = [planted("crash", crashes), planted("hang", lambda rng: time.sleep(60))]
    campaign = Campaign([*targets, planted("sound", lambda rng: None)], world, seed=0)
    assert "signal 11" in str(campaign.attempt("crash", 0))
    assert campaign.attempt("sound", 0) is None
    campaign.sandbox.known.add("hang")
    answer = campaign.sandbox.ask("hang", 0, seconds=0.3)
    assert str(answer).startswith("hang")
    assert campaign.attempt("sound", 1) is None
    campaign.sandbox.close()


def test_a_child_reports_how_it_ended(tmp_path: Path) -> None:
    def fails() -> int:
        raise ValueError("planted")

    def writes() -> int:
        Path("large").write_bytes(bytes(5000))
        return 0

    assert Child(lambda: 0, tmp_path).wait().fault([0]) is None
    assert "traceback ValueError: planted" in str(Child(fails, tmp_path).wait().fault([0, 1]))
    assert "exit code 3" in str(Child(lambda: 3, tmp_path).wait().fault([0, 2]))
    assert "hang" in str(Child(lambda: time.sleep(60) or 0, tmp_path).wait(0.2).fault([0]))
    limited = Child(writes, tmp_path, {resource.RLIMIT_FSIZE: 1000}).wait()
    assert "File too large" in str(limited.fault([0]))


def test_grammars_make_what_readers_take_and_breaking_is_seeded() -> None:
    rng = random.Random(0)
    assert conllu(rng).endswith("\n\n") and brackets(rng).startswith("(ROOT (S ")
    text = '{"a": [1, 2, {"b": null}], "members": []}'
    broken = [break_json(random.Random(seed), text) for seed in range(200)]
    assert broken == [break_json(random.Random(seed), text) for seed in range(200)]
    assert len(set(broken)) > 100


def test_active_elements_of_a_page_are_found() -> None:
    assert elements("<p title='onload'>a &lt;script&gt; b</p>").active == []
    assert elements("<img src=x onerror=y>").active == ["img onerror"]
    assert elements("<script>x</script><a href=' JavaScript:x'>").active == ["script", "a href"]


def test_names_of_targets_differ() -> None:
    names = [target.name for target in all_targets()]
    assert len(set(names)) == len(names) > 100
