"""Siamese fine-tuning of a whole encoder on labelled queries.

Queries and entries share one encoder, and entries are ranked by the cosine of the two vectors. UNI's
objective classifies pairs: a linear layer and a softmax over [u; v; |u-v|] tell the right entry of a query
from K = 4 wrong ones, those that a frozen encoder ranks highest. Our own variant trains the encoder with the
loss of :mod:`siamese`. Training is the shared loop, so a killed run resumes to the same weights. Finished
scores are kept per set, model, side, kind of negatives and seed.

Legend: B pairs or queries of a batch, Q queries, N entries, T distinct entries of a batch, D embedding size,
K negatives.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from corpora.ranking.lexical import Scores
from corpora.support.errors import UserError
from corpora.support.files import (
    check_file,
    file_record,
    read_json,
    read_record,
    write_array,
    write_json,
    write_record,
)
from parsing.networks.device import pick_device
from senteval_runner.protocol.features import unit
from senteval_runner.towers.transformer import embed_all, load_whole, set_dropout
from senteval_runner.vectors.sources import find_source, split_parts
from studies.faq.config import EncoderConfig
from studies.faq.evaluate import Job, retrieved
from studies.faq.siamese import contrast, draw_entries, negative_count
from studies.finetune.config import LoopConfig
from studies.finetune.examples import Examples, Stream, rng
from studies.finetune.heads import PairHead, TowerModule, classification_loss
from studies.finetune.loop import Schedule, Task, fit


@dataclass(frozen=True)
class Labelled:
    """Training queries, each with a right entry and K wrong ones, drawn for every pass."""

    queries: list[str]
    relevant_QN: NDArray[np.bool_]
    retrieved_QK: NDArray[np.int64] | None
    """Fixed negatives; None draws random ones."""
    count: int
    """Number K of negatives."""
    seed: int

    def __len__(self) -> int:
        return len(self.queries)

    def draw(self, pass_index: int) -> Examples:
        """All queries; target int64 [Q, 1 + K]: the right entry, then the wrong ones."""
        generator = rng(self.seed, "faq", pass_index)
        right_Q, wrong_QK = draw_entries(self.relevant_QN, self.retrieved_QK, self.count, generator)
        return Examples(self.queries, None, np.column_stack([right_Q, wrong_QK]).astype(np.int64))


@dataclass(frozen=True)
class LabelledPairs:
    """The same as pairs: each query with its right entry (target 1) and with each wrong one (target 0)."""

    labelled: Labelled
    entries: Sequence[str]

    def __len__(self) -> int:
        return len(self.labelled) * (1 + self.labelled.count)

    def draw(self, pass_index: int) -> Examples:
        """All pairs, those of a query side by side."""
        drawn = self.labelled.draw(pass_index)
        each = 1 + self.labelled.count
        first = [query for query in drawn.first for _ in range(each)]
        second = [self.entries[entry] for entry in drawn.target.ravel()]
        target = np.tile(np.array([1] + [0] * (each - 1), dtype=np.int64), len(drawn))
        return Examples(first, second, target)


class Retriever(TowerModule):
    """An encoder and the texts of the entries."""

    def __init__(self, tower: nn.Module, entries: Sequence[str]) -> None:
        super().__init__(tower)
        self.entries = list(entries)

    def scores(self, queries: Sequence[str]) -> Scores:
        """Cosines of queries and entries, float32 [Q, N]."""
        table = unit(embed_all(self.encoder, [*queries, *self.entries]))
        scores: Scores = table[: len(queries)] @ table[len(queries) :].T
        return scores


class PairRetriever(Retriever):
    """Learns whether a query and an entry belong together.

    Args:
        tower: the encoder.
        entries: texts of all entries.
        seed: seed of the layer's initial weights.
    """

    def __init__(self, tower: nn.Module, entries: Sequence[str], seed: int) -> None:
        super().__init__(tower, entries)
        self.head = PairHead(self.encoder.dim, 2, "uv-diff", seed)

    def loss(self, examples: Examples) -> Tensor:
        """Mean over the batch of -log softmax(head(u, v))[target]."""
        assert examples.second is not None
        vectors = self.encoder.embed(examples.first + examples.second)
        query_BD, entry_BD = vectors.split(len(examples))
        target = torch.from_numpy(examples.target).to(vectors.device)
        return classification_loss(self.head(query_BD, entry_BD), target)


class ContrastRetriever(Retriever):
    """Learns to rank the right entry of a query above the wrong ones.

    Args:
        tower: the encoder.
        entries: texts of all entries.
        temperature: of the softmax over cosines.
    """

    def __init__(self, tower: nn.Module, entries: Sequence[str], temperature: float) -> None:
        super().__init__(tower, entries)
        self.temperature = temperature

    def loss(self, examples: Examples) -> Tensor:
        """The mean of ``contrast`` over a batch; an entry that several queries use is encoded once."""
        needed_T, place = np.unique(examples.target, return_inverse=True)
        texts = [*examples.first, *(self.entries[entry] for entry in needed_T)]
        query_BD, entry_TD = normalize(self.encoder.embed(texts), dim=-1).split(
            [len(examples), len(needed_T)]
        )
        entry_BKD = entry_TD[torch.from_numpy(place.reshape(examples.target.shape))]
        return contrast(query_BD, entry_BKD[:, 0], entry_BKD[:, 1:], self.temperature)


class EncoderTuner:
    """Tunes a fresh copy of a model per job; finished jobs under ``folder`` are read.

    Args:
        name: name of the set, used as a folder name.
        queries: all queries, Q of them.
        entries: texts of all N entries by side.
        vectors: frozen vectors by model (``embed_faq``), for the retrieved negatives.
        relevant_QN: which entries answer which query, [Q, N].
        config: how the encoder is trained.
        folder: folder of states and finished scores.
        retriever: the frozen model that retrieves negatives; None is the trained model itself.
        device: auto, cpu or cuda.
        report: called with lines for the log.
    """

    def __init__(
        self,
        name: str,
        queries: Sequence[str],
        entries: Mapping[str, Sequence[str]],
        vectors: Mapping[str, Mapping[str, NDArray[np.floating]]],
        relevant_QN: NDArray[np.bool_],
        config: EncoderConfig,
        folder: Path,
        *,
        retriever: str | None = None,
        device: str = "auto",
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        # As the frozen encoders see texts: tokens joined by one space.
        self.queries = [" ".join(text.split()) for text in queries]
        self.entries = {side: [" ".join(text.split()) for text in texts] for side, texts in entries.items()}
        self.vectors, self.relevant_QN, self.config = vectors, relevant_QN, config
        self.folder, self.device, self.report = folder / name, pick_device(device), report
        self.retriever = retriever

    def __call__(self, job: Job) -> Scores:
        """Scores of the test queries after training on the training queries: [test, N].

        Raises:
            UserError: the folder holds this job with other options, or the model cannot be tuned.
        """
        slug = f"{_slug(job.model)}-{job.side}-{job.sampling}-{job.seed}"
        folder, identity = self.folder / slug, self._identity(job)
        kept = folder / "scores.npy"
        if (folder / "job.json").exists() and read_json(folder / "job.json") != identity:
            raise UserError(f"{folder}: was tuned with other options or texts; use another --output")
        finished = _finished(kept)
        if finished is None:
            write_json(folder / "job.json", identity)
            net = self._train(job, folder / "training")
            scores = net.scores([self.queries[row] for row in job.test])
            write_array(kept, scores)
            write_record(folder / "scores.json", file_record(kept))
            finished = scores
        shutil.rmtree(folder / "training", ignore_errors=True)
        return finished

    def _train(self, job: Job, folder: Path) -> Retriever:
        config = self.config
        rows = job.train[: config.queries] if config.queries else job.train
        relevant_QN = self.relevant_QN[rows]
        count = negative_count(relevant_QN, config.negatives)
        taught = replace(job, train=rows)
        wrong_QK = retrieved(self.vectors, taught, relevant_QN, count, self.retriever)
        labelled = Labelled([self.queries[row] for row in rows], relevant_QN, wrong_QK, count, job.seed)
        tower = load_whole(job.model, max_length=config.max_length, device=self.device)
        set_dropout(tower, config.dropout)
        entries = self.entries[job.side]
        net: PairRetriever | ContrastRetriever
        source: LabelledPairs | Labelled
        if config.objective == "pair":
            net, source = PairRetriever(tower, entries, job.seed), LabelledPairs(labelled, entries)
        else:
            net, source = ContrastRetriever(tower, entries, config.temperature), labelled
        net = net.to(self.device)
        net.encoder.prepare([*self.queries, *net.entries])
        stream = Stream(source, config.batch_size, job.seed, "faq")
        steps = config.epochs * stream.batches_per_pass
        fit(
            net,
            {"faq": Task(stream, net.loss)},
            Schedule(cycle=("faq",), steps=steps, evaluate_every=steps, save_every=config.save_every),
            LoopConfig(learning_rate=config.learning_rate),
            evaluate=dict,
            seed=job.seed,
            folder=folder,
            report=self.report,
        )
        return net

    def _identity(self, job: Job) -> dict[str, Any]:
        """Everything that decides the scores of a job."""
        texts = "\n".join([*self.queries, *self.entries[job.side]])
        return {
            "config": {key: value for key, value in asdict(self.config).items() if key != "save_every"},
            "model": find_source(job.model).key,
            "retriever": find_source(self.retriever).key if self.retriever else None,
            "texts_sha256": hashlib.sha256(texts.encode()).hexdigest(),
            "train_sha256": hashlib.sha256(np.ascontiguousarray(job.train).tobytes()).hexdigest(),
        }


def refuse_untunable(models: Sequence[str]) -> None:
    """Reject models without weights to tune before any work starts.

    Raises:
        UserError: a model is a concatenation, a word-vector file or the like.
    """
    for spec in models:
        parts = split_parts(spec)
        if len(parts) > 1 or find_source(spec).kind not in ("multiview", "sentence-transformers"):
            raise UserError(
                f"--tune encoder: {spec!r} is not one transformer or multi-view model; "
                "leave it out or use --tune map"
            )


def _finished(scores: Path) -> Scores | None:
    """The scores of a finished job; None if there are none, or the file is not the one that was written."""
    try:
        record = read_record(scores.with_suffix(".json"))
        check_file(scores, **record)
    except UserError:
        return None
    found: Scores = np.load(scores, allow_pickle=False)
    return found


def _slug(spec: str) -> str:
    """A model's name as part of a folder name, unique to it."""
    return f"{Path(spec).name}-{hashlib.sha256(spec.encode()).hexdigest()[:6]}"
