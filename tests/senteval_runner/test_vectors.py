"""Evaluation sentences are parsed once: over models, tasks, runs and kills."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval.files import read_task
from multiview.model import MultiViewEncoder
from multiview.names import sources
from multiview.names.sources import BoundModel
from parsing.trees.cache import TreeCache
from senteval_runner import evaluate, vectors
from senteval_runner.evaluation import read_tasks
from senteval_runner.run import main
from senteval_runner.vectors import EvaluationTrees, find_caches
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser
from tests.senteval_runner.test_run import config

TOYS = {"dep": ToyDependencyParser, "const": ToyConstituencyParser}


def model(seen: list[tuple[str, ...]] | None = None, views: str = "dep,const", **kinds) -> MultiViewEncoder:
    """An untrained model with toy parsers; ``seen`` collects what they parse."""
    made = MultiViewEncoder.untrained(views, dim=6, word_dim=4)
    for need, kind in TOYS.items():
        parser = made.reader.parsers[need] = kinds.get(need, kind())
        parser.parse = partial(listening, parser.parse, [] if seen is None else seen)
    return made


def listening(parse, seen, sentences):  # type: ignore[no-untyped-def]
    seen += [tuple(tokens) for tokens in sentences]
    return parse(sentences)


IDENTITIES = {need: kind.identity for need, kind in TOYS.items()}


def sentences(data: Path, *tasks: str) -> set[tuple[str, ...]]:
    return {
        tuple(tokens) or (".",)
        for task in tasks
        for part in read_task(task, data).splits.values()
        for tokens in part.sentences()
    }


def trees_of(folder: Path, data: Path, *tasks: str) -> EvaluationTrees:
    return EvaluationTrees(folder=folder, tasks=read_tasks(tasks, data).data)


def bound(encoder: MultiViewEncoder, trees: EvaluationTrees):
    return BoundModel(encoder, {}, trees.of(encoder))


def test_each_sentence_is_parsed_once(tmp_path: Path, data: Path) -> None:
    seen: list[tuple[str, ...]] = []
    folder = tmp_path / "trees"

    def run(*tasks: str):
        return bound(model(seen), trees_of(folder, data, *tasks))

    run("CR", "MPQA")  # MPQA is not there
    assert set(seen) == sentences(data, "CR") and len(seen) == 2 * len(set(seen))  # once per view
    seen.clear()
    run("CR")
    assert not seen  # another model, the same sentences
    encode = run("CR", "MRPC", "WordContent")
    assert set(seen) == sentences(data, "MRPC", "WordContent") - sentences(data, "CR")
    assert len(list(folder.glob("senteval-*/*/manifest.json"))) == 2
    everything = [list(s) for s in sorted(sentences(data, "CR", "MRPC", "WordContent"))]
    seen.clear()
    np.testing.assert_allclose(encode(everything), model().encode(everything), atol=1e-6)
    assert not seen
    encode([["not", "there"]])
    assert seen == [("not", "there")] * 2  # on the fly


def test_other_parsers_have_other_trees(tmp_path: Path, data: Path) -> None:
    wanted = trees_of(tmp_path, data, "CR")
    bound(model(), wanted)
    other, seen = ToyDependencyParser(), []
    other.identity = {**other.identity, "version": "2"}
    bound(model(seen, dep=other), wanted)
    assert set(seen) == sentences(data, "CR")
    seen.clear()
    bound(model(seen, views="dep,dep"), wanted)  # a cache of both views serves one of them
    assert not seen and find_caches(tmp_path, {"dep": {"name": "nobody"}}) is None


def test_trees_of_another_device_are_found_of_other_rules_of_characters_not(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model does not mind the device, and nothing is parsed again."""
    on_gpu, seen = ToyDependencyParser(), []
    on_gpu.identity = {**on_gpu.identity, "device": "cuda"}
    wanted = trees_of(tmp_path, data, "CR")
    made, found = wanted.of(model(dep=on_gpu)), wanted.of(model(seen))
    assert found is not None and made is not None and len(found) == len(made) and not seen
    monkeypatch.setattr(vectors, "VERSION", 0)
    assert find_caches(tmp_path, IDENTITIES) is None


def test_a_killed_run_keeps_its_shards(tmp_path: Path, data: Path, monkeypatch) -> None:
    monkeypatch.setattr(vectors, "SHARD_SENTENCES", 8)
    folder = tmp_path / "trees"
    wanted = trees_of(folder, data, "CR", "MRPC")

    class Killed(ToyDependencyParser):
        calls = 0

        def parse(self, batch):
            Killed.calls += 1
            if Killed.calls > 4:
                raise KeyboardInterrupt
            return super().parse(batch)

    with pytest.raises(KeyboardInterrupt):
        bound(model(dep=Killed()), wanted)
    kept = find_caches(folder, IDENTITIES)
    assert kept is not None and len(kept) >= 3 * 8
    seen: list[tuple[str, ...]] = []
    bound(model(seen), wanted)
    whole = find_caches(folder, IDENTITIES)
    all_of_them = sentences(data, "CR", "MRPC")
    assert len(set(seen)) == len(all_of_them) - len(kept)
    assert whole is not None and len(whole) == len(all_of_them)


def test_worker_processes_parse_the_same(tmp_path: Path, data: Path, monkeypatch) -> None:
    """Many sentences go to workers, which load the parsers by their specification."""
    here, there = tmp_path / "here", tmp_path / "there"
    untrained = MultiViewEncoder.untrained("dep,const", dim=6, word_dim=4)  # the builtin parsers
    a = trees_of(here, data, "CR").of(untrained)
    monkeypatch.setattr(vectors, "MIN_SENTENCES_FOR_WORKERS", 0)
    b = trees_of(there, data, "CR").of(untrained)
    assert isinstance(a, TreeCache) and isinstance(b, TreeCache) and len(a) == len(b)
    one, other = a.read(0, len(a)), b.read(0, len(b))
    for field in one.fields:
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def test_evaluate_and_the_command(tmp_path: Path, data: Path, monkeypatch) -> None:
    seen: list[tuple[str, ...]] = []
    plain = evaluate(model(), ["CR", "SICK-R"], data, "fast")
    cached = evaluate(model(seen), ["CR", "SICK-R"], data, "fast", trees=tmp_path / "trees")
    assert set(seen) == sentences(data, "CR", "SICK-R")
    for task in plain:
        assert plain[task].metrics == pytest.approx(cached[task].metrics, abs=1e-3)
    seen.clear()
    monkeypatch.setattr(sources.Source, "model", lambda source, device, parsers: model(seen))
    options = config(tmp_path, data, "random:dep,const", tasks="CR,SICK-R", trees=tmp_path / "trees")
    assert main(options) == 0 and not seen
