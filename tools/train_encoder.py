"""Train the sentence encoder that ships: text, trees, a teacher's vectors, words, views, a read-out.

    python -m tools.train_encoder --data DATA --teacher all-MiniLM-L6-v2
    python -m tools.train_encoder --data DATA --teacher none --output runs/alone

Text of several kinds is cut into blocks of successive sentences, which are shuffled, so that any first part
is a sample of all. No sentence stays whose word trigrams have a Jaccard similarity of 0.8 or more with those
of an evaluation sentence. Words are fitted so that their mean comes nearest to the teacher's vector of the
sentence (tokenlearn's idea, Tulkens & van Dongen 2024), from where the teacher has each word by itself, and
stand beside skip-grams of the same text. Views are trained over them to the teacher's vectors, and a ridge
regression of everything is the read-out. Every stage is kept and a stopped one goes on; the same options and
threads give the same bits. Hours are printed.
"""

from __future__ import annotations

import collections
import gzip
import lzma
import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from corpora.support.cli import Command, Count, configuration
from corpora.support.files import (
    atomic_path,
    file_record,
    read_record,
    write_array,
    write_json,
    write_record,
    write_text,
)

SOURCES = {"wikipedia": 1.0, "books": 0.25, "masc": 1.0, "us_addresses": 1.0}
"""Files of running text, and which share of their blocks is read."""
TREEBANKS = ("ewt", "gum")
EVALUATION = ("senteval/downstream", "probing_rebuilt", "structure", "nli")
"""Folders whose sentences are never learned from."""
BLOCK, LONG, SHORT = 100, 40, 3
"""Sentences of a block; words of a sentence."""
HELD = 0.01
"""Share of documents that nothing learns from."""
NEAR = 0.8
"""Jaccard similarity of trigrams that is too much."""
COMMON = 2000
"""Evaluation sentences with a trigram that then tells nothing."""
WORDS, TAUGHT, SKIP, BESIDE = 40_000, 384, 192, 0.35
"""Words, the numbers that the teacher and skip-grams give each, and how large the second are to the first."""
PASSES, RATE, BATCH = 6, 3e-3, 1024
"""Of the fit of words."""
CHUNK = 10_000
"""Sentences that the teacher encodes before they are kept."""
WORD = re.compile(r"\w+")
PIECE = re.compile(r"\s*[,;:()\u2014]\s*|\s--\s")
VIEWS = (
    *("--views", "dep,const,seq", "--words", "fixed", "--table.buckets", "2000", "--table.dropout", "0"),
    *(
        "--encoder.dim",
        "192",
        "--encoder.relations",
        "--encoder.pooling",
        "root,mean,max",
        "--objective.boundary",
        "none",
    ),
    *("--objective.score", "cosine", "--loop.batch", "200", "--loop.learning-rate", "0.002"),
)
"""Options of ``multiview.train``."""
ADDED = {"bag": 1.0, "hash": 14.0}
"""Views without weights that are read beside the trained ones, and their factors."""
STRUCTURE = 0.15
"""The default share of who did what to whom."""


@configuration
class TrainEncoderConfig:
    """Options of ``tools.train_encoder``; the defaults made the encoder that ships."""

    data: Path
    """Folder with corpora, treebanks and evaluation sets."""
    teacher: str = "all-MiniLM-L6-v2"
    """A sentence-transformers model, or none."""
    sentences: Count = 400_000
    """Sentences to parse, teach and train on."""
    epochs: Count = 2
    """Passes of training."""
    output: Path = Path("runs/encoder")
    """Folder of all stages."""


def trigrams(words: list[str]) -> set[tuple[str, ...]]:
    """Of a sentence; a shorter one is one by itself."""
    return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))}


class Evaluation:
    """The trigrams of evaluation sentences, to find the text that is near them."""

    def __init__(self, data: Path) -> None:
        found = {tuple(words) for line in self.lines(data) if len(words := WORD.findall(line.lower())) >= 4}
        self.sentences = [trigrams(list(words)) for words in sorted(found)]
        self.index = collections.defaultdict(list)
        for number, sentence in enumerate(self.sentences):
            for gram in sentence:
                self.index[gram].append(number)

    @staticmethod
    def lines(data: Path) -> Iterator[str]:
        """Every column of every row of every file."""
        for folder in EVALUATION:
            for path in sorted(p for p in (data / folder).rglob("*") if p.is_file()):
                raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
                for line in raw.decode("latin-1" if "TREC" in path.name else "utf-8", "replace").splitlines():
                    yield from line.split("\t")

    def near(self, words: list[str]) -> bool:
        """Whether a sentence is as near to one of them as is too much."""
        own, shared = trigrams(words), collections.Counter[int]()
        for gram in own:
            if len(self.index.get(gram, ())) < COMMON:
                shared.update(self.index.get(gram, ()))
        return any(
            count >= NEAR * (len(own) + len(self.sentences[number]) - count)
            for number, count in shared.most_common(3)
        )


def documents(path: Path) -> Iterator[list[str]]:
    """Sentences of each document of a text, or of the comments of a CoNLL-U file."""
    document: list[str] = []
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            treebank = path.suffix == ".conllu"
            if line.startswith("# newdoc") if treebank else not line.strip():
                if document:
                    yield document
                document = []
            elif not treebank or line.startswith("# text ="):
                document.append(line.removeprefix("# text =").strip())
    if document:
        yield document


def select(data: Path, folder: Path, sentences: int) -> None:
    """Write ``train.txt`` and ``held.txt``, blocks with a blank line between, and ``text.json``.

    Args:
        data: with the sources and the evaluation sets.
        folder: of the results.
        sentences: of training; of the blocks beyond, ``more.txt`` is for skip-grams.
    """
    evaluation, draw = Evaluation(data), random.Random(0)
    counts, blocks, held = collections.Counter[str](), list[list[str]](), list[list[str]]()

    def take(kind: str, found: list[str], target: list[list[str]]) -> None:
        kept = []
        for sentence in found:
            words = WORD.findall(sentence.lower())
            if SHORT <= len(words) <= LONG and "formula_" not in sentence:
                near = evaluation.near(words)
                counts["removed" if near else kind] += 1
                kept += [] if near else [sentence]
        pieces = (kept[i : i + BLOCK] for i in range(0, len(kept), BLOCK))
        target += [piece for piece in pieces if len(piece) > 1]

    def clauses(found: list[str]) -> list[str]:
        pieces = (piece.strip() for sentence in found for piece in PIECE.split(sentence))
        return [piece for piece in pieces if 4 <= len(piece.split()) <= 14][:BLOCK]

    for name, share in SOURCES.items():
        whole = list(documents(data / "corpora" / f"{name}.txt.xz"))
        for document in whole:
            if draw.random() < HELD:
                take("held", document[:200], held)
                continue
            for start in range(0, len(document), 400):
                part = document[start : start + 400]
                if draw.random() < share:
                    take(name, part, blocks)
                elif draw.random() < 0.3:
                    take("clauses", clauses(part), blocks)
        if name == "wikipedia":
            for document in whole:
                if draw.random() < 0.25:
                    take("clauses", clauses(document), blocks)
    for name in TREEBANKS:
        for document in documents(data / "treebank" / name / "train.conllu"):
            take(name, document, blocks)
    threads = collections.defaultdict(list)
    for name in ("faq", "queries"):
        rows = (data / "retrieval" / "stackfaq" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        for row in rows[1:]:
            threads[row.split("\t")[1]].append(row.split("\t")[2])
    for questions in threads.values():
        take("stackfaq", list(dict.fromkeys(questions)), blocks)
    draw.shuffle(blocks)
    draw.shuffle(held)
    ends = np.cumsum([len(block) for block in blocks])
    first = int(np.searchsorted(ends, sentences)) + 1
    for name, chosen in (("train", blocks[:first]), ("more", blocks[first:]), ("held", held)):
        write_text(folder / f"{name}.txt", "".join("\n".join(block) + "\n\n" for block in chosen))
    write_json(folder / "text.json", counts)


def teach(folder: Path, name: str, teacher: str) -> None:
    """The teacher's vectors of a tree cache's text, ``NAME.npy``, from parts that are kept."""
    import torch

    from multiview.pretrained import whole_model

    model = whole_model(teacher, "cpu").to(torch.bfloat16)
    sentences = [line for line in (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines() if line]
    parts = []
    for start in range(0, len(sentences), CHUNK):
        parts.append(folder / f"taught-{name}" / f"{start:08}.npy")
        if not parts[-1].exists():
            parts[-1].parent.mkdir(exist_ok=True)
            found = model.encode(sentences[start : start + CHUNK], batch_size=32, show_progress_bar=True)
            write_array(parts[-1], found.astype(np.float16))
    write_array(folder / f"{name}.npy", np.concatenate([np.load(part) for part in parts]).astype(np.float32))


def skip_grams(folder: Path) -> None:
    """``skip.npy``: skip-grams [W, E] of the most frequent words of all text, which ``words.tsv`` counts."""
    from gensim.models import Word2Vec

    from corpora.text import Tokenizer

    tokenizer = Tokenizer("spacy", running=False)
    text = "".join((folder / f"{name}.txt").read_text(encoding="utf-8") for name in ("train", "more"))
    sentences = [[w.lower() for w in tokenizer.line(line)] for line in text.splitlines() if line]
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS]
    model = Word2Vec(sg=1, vector_size=SKIP, min_count=1, seed=0, workers=1, window=5, negative=5)
    model.build_vocab_from_freq(dict(kept), corpus_count=len(sentences))
    model.train(sentences, total_examples=len(sentences), epochs=3)
    write_text(folder / "words.tsv", "".join(f"{word}\t{count}\n" for word, count in kept))
    write_array(folder / "skip.npy", np.stack([model.wv[word] for word, _ in kept]))


def fit_words(folder: Path, teacher: str) -> None:
    """``words.bin``: words whose mean comes nearest to the teacher's sentences, beside skip-grams."""
    import torch
    from gensim.models import KeyedVectors
    from torch.nn.functional import cosine_similarity, normalize

    from multiview.pretrained import whole_model
    from multiview.words.table import Vocabulary, inverse_frequency
    from parsing.trees.cache import TreeCache

    rows = (folder / "words.tsv").read_text(encoding="utf-8").splitlines()
    words, counts = zip(*(row.split("\t") for row in rows), strict=True)
    weight_W1 = inverse_frequency(np.array(counts, np.int64), 1 + len(words))[1:, None]
    cache, vocabulary = TreeCache.open(folder / "trees"), Vocabulary(words, case="lower")
    tokens, lengths = [], []
    for start in range(0, len(cache), CHUNK):
        batch = cache.read(start, min(start + CHUNK, len(cache)), ("token",), vocabulary)
        tokens.append(torch.from_numpy(np.asarray(batch.token, np.int64)))
        lengths.append(np.diff(batch.sentence_offsets))
    token_N, length_S = torch.cat(tokens), torch.from_numpy(np.concatenate(lengths).astype(np.int64))
    start_S, wanted_ST = length_S.cumsum(0) - length_S, torch.from_numpy(np.load(folder / "train.npy"))
    model = whole_model(teacher, "cpu").to(torch.bfloat16)
    single_WT = normalize(torch.from_numpy(model.encode(list(words), batch_size=256)), dim=1)
    first_WT = torch.zeros(1 + len(words), TAUGHT)
    first_WT[1:] = (single_WT - single_WT.mean(0)) * torch.from_numpy(weight_W1)
    table = torch.nn.EmbeddingBag.from_pretrained(
        first_WT, freeze=False, mode="mean", sparse=True, include_last_offset=True
    )
    bias_T = torch.nn.Parameter(torch.zeros(TAUGHT))
    optimisers = torch.optim.SparseAdam(table.parameters(), lr=RATE), torch.optim.Adam([bias_T], lr=RATE)
    order = torch.Generator().manual_seed(0)
    chosen = [
        part for _ in range(PASSES) for part in torch.randperm(len(length_S), generator=order).split(BATCH)
    ]
    for step, chosen_B in enumerate(chosen):
        length_B = length_S[chosen_B]
        offset_B = torch.cat([torch.zeros(1, dtype=torch.long), length_B.cumsum(0)])
        place = torch.arange(int(offset_B[-1])) + (start_S[chosen_B] - offset_B[:-1]).repeat_interleave(
            length_B
        )
        vectors_BT = table(token_N[place], offset_B) + bias_T
        loss = 1 - cosine_similarity(vectors_BT, wanted_ST[chosen_B]).mean()
        loss.backward()
        rate = RATE * min(1, (step + 1) / 50) * (0.505 + 0.495 * math.cos(math.pi * step / len(chosen)))
        for optimiser in optimisers:
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
            optimiser.zero_grad()
        if step % 100 == 0:
            print(f"words: step {step} of {len(chosen)}, 1 - cosine {loss.item():.4f}", flush=True)
    taught_WT = table.weight.detach().numpy()[1:]
    beside_WE = np.load(folder / "skip.npy") * weight_W1
    beside_WE *= BESIDE * np.sqrt(np.mean(taught_WT**2) / np.mean(beside_WE**2))
    vectors = KeyedVectors(TAUGHT + SKIP)
    vectors.add_vectors(list(words), np.concatenate([taught_WT, beside_WE], axis=1).astype(np.float32))
    with atomic_path(folder / "words.bin") as temporary:
        vectors.save_word2vec_format(str(temporary), binary=True)


def pack(folder: Path) -> None:
    """Store a model compactly, see :mod:`multiview.folder.files`: words in 4 bits, matrices in int8."""
    import torch
    from safetensors.torch import load_file, save_file

    from multiview.folder.files import FIXED, SCALE, WEIGHTS, pack_matrix
    from multiview.words.vectors import VECTORS

    record, packed = read_record(folder / "config.json"), {}
    for name, value in load_file(folder / WEIGHTS).items():
        packed |= pack_matrix(name, value) if value.ndim == 2 else {name: value.half()}
    words_WE = torch.from_numpy(np.load(folder / VECTORS))
    # Of 15 steps over normal numbers those to 2.7 standard deviations err least.
    scale_W1 = torch.minimum(words_WE.abs().amax(1, True), 2.7 * words_WE.square().mean(1, True).sqrt()) / 7
    scale_W1 = scale_W1.clamp(min=1e-30).bfloat16()
    steps_WE = ((words_WE / scale_W1.float()).round().clamp(-7, 7) + 8).to(torch.uint8)
    packed[FIXED], packed[FIXED + SCALE] = steps_WE[:, ::2] | steps_WE[:, 1::2] << 4, scale_W1[:, 0]
    with atomic_path(folder / "config.json") as last, atomic_path(folder / WEIGHTS) as weights:
        save_file(packed, weights)
        del record["files"][VECTORS]
        record["files"][WEIGHTS] = file_record(weights)
        write_record(last, {**record, "storage": "compact"})
    (folder / VECTORS).unlink()


def read_as(trained: Path, folder: Path) -> None:
    """A copy of a trained model that reads words and spelling beside the views, stored compactly."""
    from multiview.encoders.registry import Reading
    from multiview.folder.files import load_members, save_model

    (member,) = load_members(trained)
    pooling = member.network.config.pooling
    member.network = member.network.as_read(Reading(pooling, tuple(ADDED), (1.0, 1.0, 1.0, *ADDED.values())))
    save_model([member], folder, trained)
    pack(folder)


def main(config: TrainEncoderConfig) -> None:
    """Run the stages that are not there yet."""
    folder, begun = config.output, time.monotonic()

    def stage(name: str, make: Callable[[], object]) -> None:
        if not (folder / name).exists():
            make()
        print(f"{name}: {(time.monotonic() - begun) / 3600:.2f} h", flush=True)

    def command(module: str, *options: object) -> None:
        subprocess.run([sys.executable, "-m", module, *map(str, options)], check=True)

    stage("text.json", lambda: select(config.data, folder, config.sentences))
    command("parsing.run", folder / "train.txt", "--output", folder / "trees")
    stage("train.npy", lambda: teach(folder, "train", config.teacher))
    stage("skip.npy", lambda: skip_grams(folder))
    stage("words.bin", lambda: fit_words(folder, config.teacher))
    shared = "--trees", folder / "trees", "--vectors", folder / "words.bin", "--loop.epochs", config.epochs
    taught = "--objective.teacher", folder / "train.npy", "--output", folder, "--name", "views"
    command("multiview.train", *VIEWS, *shared, *taught)
    stage("model", lambda: read_as(folder / "views", folder / "model"))
    command("multiview.readout", folder / "model", folder / "trees", "--teacher", folder / "train.npy",
            "--structure", STRUCTURE)  # fmt: skip


cli = Command(
    TrainEncoderConfig,
    main,
    "tools.train_encoder",
    "Train the sentence encoder of the package.",
    owns=lambda config: config.output,
)


if __name__ == "__main__":
    sys.exit(cli())
