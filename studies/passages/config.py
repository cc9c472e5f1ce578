"""Options of passage ranking; imports nothing heavy, so that --help is fast."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from corpora.support.config import Count, NotNegative, Positive, configuration
from senteval_runner.towers.config import BackboneConfig, Pieces
from studies.finetune.config import LoopConfig

Feature = Literal["cosine", "bilinear", "bilinear-identity", "uv", "uv-diff-prod"]
Scorer = Literal["linear", "mlp"]
Baseline = Literal["bm25", "bm25-tuned", "tfidf"]


@configuration
class RankerConfig:
    """How a scorer over frozen vectors is trained."""

    epochs: Count = 40
    """Most passes over the relevant passages of the training questions."""
    patience: Count = 8
    """Stop after this many passes without a better development score."""
    batch_size: Count = 64
    """Pairs of a relevant and an irrelevant passage per step."""
    negatives: Count = 4
    """Irrelevant passages drawn for every relevant one in each pass (fewer where a question has fewer)."""
    hidden: Count = 128
    """Hidden units of the MLP scorer."""
    learning_rate: Positive = 1e-3
    """Of AdamW."""
    weight_decay: NotNegative = 0.01
    """Of AdamW."""


@configuration
class FrozenConfig:
    """Encoders read layer by layer; every choice of layers and pooling is a model."""

    backbones: tuple[str, ...] = ()
    """Encoders, named as in studies.layers: Hugging Face names or folders, folders of multiview.train."""
    layers: tuple[str, ...] = ("top,bottom",)
    """Choices of layers: one (-1, top, emb), or several side by side, separated by commas. EMP found the top
    and the bottom layer together to be best."""
    poolings: tuple[str, ...] = ("mean",)
    """Of cls, sep, mean, max (tree encoders: root, mean, max), each with every choice of layers."""
    special_tokens: bool = True
    """Whether mean and max count [CLS], [SEP] and their like; padding never counts."""
    max_length: Pieces = 512
    """Word pieces per passage, special ones included; fewer where the encoder reads fewer."""
    batch_size: Count = 32
    """Passages encoded at a time."""


@configuration
class CrossConfig:
    """The fine-tuned cross-encoder: question and passage read together, an upper bound."""

    backbones: tuple[str, ...] = ()
    """Hugging Face encoders (names or folders) to fine-tune on each set; none: no cross-encoder."""
    margin: NotNegative | None = None
    """Margin of its ranking loss; None is --margin."""
    steps: Count = 500
    """Optimiser steps."""
    batch_size: Count = 16
    """Pairs of a relevant and an irrelevant passage per step."""
    negatives: Count = 4
    """Irrelevant passages drawn for every relevant one in each pass."""
    hidden: Count = 256
    """Hidden units of the two-layer MLP on the first position ([CLS])."""
    max_length: Pieces | None = None
    """Word pieces of question and passage together; longer passages are cut. None is the backbone's maximum
    (BERT: 512)."""
    evaluate_every: Count = 100
    """Steps between evaluations on the development questions."""
    dev_questions: Count | None = None
    """Number of development questions scored during training; None is all."""
    save_every: Count = 50
    """Steps between saved states."""
    loop: LoopConfig = field(default_factory=LoopConfig)
    """How the weights are trained."""


@configuration
class PassagesConfig:
    """Options of ``studies.passages``."""

    sets: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[FORMAT=]FOLDER...")] = ()
    """Data sets: folders named wikiqa, trecqa, wikipassageqa, insuranceqa, quasar-t or searchqa, or
    FORMAT=FOLDER."""
    models: tuple[str, ...] = ()
    """Encoders with vectors of their own, named as in senteval_runner.run; A+B puts vectors side by side."""
    preset: Literal["paper"] | None = None
    """paper: EMP's Table 3. Name your own folders in place of its data sets and models."""
    features: tuple[Feature, ...] = ("cosine", "bilinear", "bilinear-identity", "uv", "uv-diff-prod")
    """What a scorer sees of a question's vector u and a passage's v: cosine (not trained), u'Wv (W starting
    at random, or at the identity, which is the cosine), [u; v], [u; v; |u-v|; u*v]."""
    scorers: tuple[Scorer, ...] = ("linear", "mlp")
    """Scorers on [u; v] and [u; v; |u-v|; u*v]."""
    baselines: tuple[Baseline, ...] = ("bm25", "bm25-tuned", "tfidf")
    """BM25 with the library's defaults (k1 1.5, b 0.75), BM25 with k1 and b chosen on dev, TF-IDF."""
    margin: NotNegative = 0.0
    """Margin of max(0, margin - s(q,p+) + s(q,p-)). EMP prints 0, which allows the trivial solution: a scorer
    that gives every passage one score has loss 0, and no pair teaches once s(q,p+) >= s(q,p-). The report
    counts the pairs that tie."""
    select: Literal["mrr", "map"] = "map"
    """Development score that chooses the epoch, BM25's parameters and the cross-encoder's weights."""
    keep: Literal["answered", "mixed", "all"] = "answered"
    """Questions of dev and test: answered has a relevant candidate (the usual WikiQA and raw TrecQA), mixed
    an irrelevant one too (TrecQA "clean"), all keeps every one (0 where no candidate is relevant)."""
    limit: Count | None = None
    """Use only this many questions at the start of each split; None uses all."""
    runs: Count = 1
    """Training runs per method; several give mean ± standard deviation."""
    unit: Literal["passage", "sentence"] = "passage"
    """Encode a passage at once, or as the mean of its sentences' vectors (for sentence encoders)."""
    normalize_parts: bool = False
    """Scale the parts of A+B to length 1 before they are joined."""
    random_seed: int = 0
    """Seed of random encoders."""
    output: Path = Path("runs/passages")
    """Folder for results.json, tables.md, report.html and the finished cells."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors, one subfolder per model."""
    trees: Path | None = None
    """Tree cache that holds the sentences; None parses them."""
    device: str | None = None
    """Where models compute, e.g. cpu or cuda; None is a GPU if there is one."""
    frozen: FrozenConfig = field(default_factory=FrozenConfig)
    """Encoders read layer by layer."""
    ranker: RankerConfig = field(default_factory=RankerConfig)
    """Scorers over frozen vectors."""
    cross: CrossConfig = field(default_factory=CrossConfig)
    """The cross-encoder."""

    def reading(self) -> BackboneConfig:
        """How the encoders of ``frozen`` are read."""
        return BackboneConfig(
            special_tokens=self.frozen.special_tokens,
            max_length=self.frozen.max_length,
            batch_size=self.frozen.batch_size,
            trees=self.trees,
            device=self.device,
        )
