"""Evaluation sentences are parsed once: over models, tasks, runs and kills."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval.files import read_task
from multiview.folder import sentence_trees
from multiview.model import MultiViewEncoder
from multiview.names.encoder import TreeEncoder
from senteval_runner import evaluate, evaluation_trees
from senteval_runner.evaluation import read_tasks
from senteval_runner.evaluation_trees import EvaluationTrees, find_caches
from senteval_runner.run import main
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser
from tests.senteval_runner.runs import config

TOYS = {"dep": ToyDependencyParser, "const": ToyConstituencyParser}


def model(parsed: list[tuple[str, ...]] | None = None, views: str = "dep,const", **kinds) -> MultiViewEncoder:
    """An untrained model with toy parsers; ``parsed`` collects what they parse."""
    encoder = MultiViewEncoder.untrained(views, dim=6, word_dim=4)
    for need, kind in TOYS.items():
        parser = encoder.reader.parsers[need] = kinds.get(need, kind())
        parser.parse = partial(parse_and_note, parser.parse, [] if parsed is None else parsed)
    return encoder


def parse_and_note(parse, parsed, sentences):  # type: ignore[no-untyped-def]
    parsed += [tuple(tokens) for tokens in sentences]
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
    return partial(encoder.encode, trees=trees.of(encoder), show_progress_bar=False)


def test_each_sentence_is_parsed_once(tmp_path: Path, data: Path) -> None:
    parsed: list[tuple[str, ...]] = []
    folder = tmp_path / "trees"

    def run(*tasks: str):
        return bound(model(parsed), trees_of(folder, data, *tasks))

    run("CR", "MPQA")  # MPQA is not there
    assert set(parsed) == sentences(data, "CR") and len(parsed) == 2 * len(set(parsed))  # once per view
    parsed.clear()
    run("CR")
    assert not parsed  # another model, the same sentences
    encode = run("CR", "MRPC", "WordContent")
    assert set(parsed) == sentences(data, "MRPC", "WordContent") - sentences(data, "CR")
    assert len(list(folder.glob("senteval-*/*/manifest.json"))) == 2
    everything = [list(s) for s in sorted(sentences(data, "CR", "MRPC", "WordContent"))]
    parsed.clear()
    np.testing.assert_allclose(encode(everything), model().encode(everything), atol=1e-6)
    assert not parsed
    encode([["not", "there"]])
    assert parsed == [("not", "there")] * 2  # on the fly


def test_other_parsers_have_other_trees(tmp_path: Path, data: Path) -> None:
    trees = trees_of(tmp_path, data, "CR")
    bound(model(), trees)
    second_parser, parsed = ToyDependencyParser(), []
    second_parser.identity = {**second_parser.identity, "version": "2"}
    bound(model(parsed, dep=second_parser), trees)
    assert set(parsed) == sentences(data, "CR")
    parsed.clear()
    bound(model(parsed, views="dep,dep"), trees)  # a cache of both views serves one of them
    assert not parsed and find_caches(tmp_path, {"dep": {"name": "nobody"}}) is None


def test_trees_of_another_device_are_found_of_other_rules_of_characters_not(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model does not mind the device, and nothing is parsed again."""
    gpu_parser, parsed = ToyDependencyParser(), []
    gpu_parser.identity = {**gpu_parser.identity, "device": "cuda"}
    trees = trees_of(tmp_path, data, "CR")
    assert len(trees.of(model(dep=gpu_parser))) == len(trees.of(model(parsed))) and not parsed
    monkeypatch.setattr(evaluation_trees, "VERSION", 0)
    assert find_caches(tmp_path, IDENTITIES) is None


def test_a_killed_run_keeps_its_shards(tmp_path: Path, data: Path, monkeypatch) -> None:
    monkeypatch.setattr(sentence_trees, "TASK_SHARD_SENTENCES", 8)
    folder = tmp_path / "trees"
    trees = trees_of(folder, data, "CR", "MRPC")

    class Killed(ToyDependencyParser):
        calls = 0

        def parse(self, batch):
            Killed.calls += 1
            if Killed.calls > 4:
                raise KeyboardInterrupt
            return super().parse(batch)

    with pytest.raises(KeyboardInterrupt):
        bound(model(dep=Killed()), trees)
    shards_before_the_kill = find_caches(folder, IDENTITIES)
    assert len(shards_before_the_kill) >= 3 * 8
    parsed: list[tuple[str, ...]] = []
    bound(model(parsed), trees)
    count = len(sentences(data, "CR", "MRPC"))
    assert len(set(parsed)) == count - len(shards_before_the_kill)
    assert len(find_caches(folder, IDENTITIES)) == count


def test_worker_processes_parse_the_same(tmp_path: Path, data: Path, monkeypatch) -> None:
    """Many sentences go to workers, which load the parsers by their specification."""
    encoder = MultiViewEncoder.untrained("dep,const", dim=6, word_dim=4)  # the builtin parsers
    trees = trees_of(tmp_path / "here", data, "CR").of(encoder)
    monkeypatch.setattr(sentence_trees, "MIN_SENTENCES_FOR_PARSING_WORKERS", 0)
    trees_of_workers = trees_of(tmp_path / "there", data, "CR").of(encoder)
    batch, batch_of_workers = (cache.read(0, len(cache)) for cache in (trees, trees_of_workers))
    for field in batch.fields:
        np.testing.assert_array_equal(getattr(batch, field), getattr(batch_of_workers, field))


def test_evaluate_and_the_command(tmp_path: Path, data: Path, monkeypatch) -> None:
    parsed: list[tuple[str, ...]] = []
    without_cache = evaluate(model(), ["CR", "SICK-R"], data, "fast")
    with_cache = evaluate(model(parsed), ["CR", "SICK-R"], data, "fast", trees=tmp_path / "trees")
    assert set(parsed) == sentences(data, "CR", "SICK-R")
    for task in without_cache:
        assert without_cache[task].metrics == pytest.approx(with_cache[task].metrics, abs=1e-3)
    parsed.clear()
    monkeypatch.setattr(TreeEncoder, "_load", lambda encoder: model(parsed))
    options = config(tmp_path, data, "random:dep,const", tasks="CR,SICK-R", trees=tmp_path / "trees")
    assert main(options) == 0 and not parsed
