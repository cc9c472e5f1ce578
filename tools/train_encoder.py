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

import collections
import gzip
import itertools
import lzma
import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multiview.words.compact import pack_model
from runtime import files
from runtime.cli import Command, Count, configuration
from runtime.errors import UserError

SOURCES = {"wikipedia": 1.0, "books": 0.25, "masc": 1.0, "us_addresses": 1.0}  # share of their blocks
TREEBANKS = ("ewt", "gum")
EVALUATION = ("senteval/downstream", "probing_rebuilt", "structure", "nli")  # never learned from
BLOCK, LONG, SHORT = 100, 40, 3  # sentences of a block; words of a sentence
HELD_OUT = 0.01  # share of documents that nothing learns from
NEAR = 0.8  # Jaccard similarity of trigrams that is too much
COMMON = 2000  # evaluation sentences with a trigram that then tells nothing
# Words; numbers that the teacher and skip-grams give each; how large the second are to the first.
WORDS, TAUGHT, SKIP, SKIP_SHARE = 40_000, 384, 192, 0.35
PASSES, RATE, BATCH = 6, 3e-3, 1024  # of the fit of words
CHUNK = 10_000  # sentences that the teacher encodes before they are kept
WORD = re.compile(r"\w+")
PIECE = re.compile(r"\s*[,;:()\u2014]\s*|\s--\s")
ALONE = "--vectors=train", f"--table.dim={TAUGHT}", "--objective.same=1"  # training without a teacher
STRUCTURE = 0.15  # default share of who did what to whom


@configuration
class TrainEncoderConfig:
    """Options of ``tools.train_encoder``; the defaults made the encoder that ships."""

    data: Path
    """Folder with corpora, treebanks and evaluation sets."""
    teacher: str = "all-MiniLM-L6-v2"
    """A sentence-transformers model, or none."""
    sentences: Count = 400_000
    """Sentences to parse, teach and train on."""
    epochs: Count = 3
    """Passes of training."""
    output: Path = Path("runs/encoder")
    """Folder of all stages."""


def trigrams(words: list[str]) -> set[tuple[str, ...]]:
    """Collect every three words of a sentence in a row; a shorter one is one by itself."""
    return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))}


def evaluation(data: Path) -> Callable[[list[str]], bool]:
    """Tell whether the words of a sentence are nearer to some evaluation sentence's than they may be.

    Evaluation sentences are every column of every row of every file.
    """
    distinct = set[tuple[str, ...]]()
    for path in sorted(p for folder in EVALUATION for p in (data / folder).rglob("*") if p.is_file()):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for cell in re.split("[\t\n]", raw.decode("latin-1" if "TREC" in path.name else "utf-8", "replace")):
            distinct |= {tuple(words)} if len(words := WORD.findall(cell.lower())) >= 4 else set()
    sentences = [trigrams(list(words)) for words in sorted(distinct)]
    index = collections.defaultdict(list)
    for number, sentence in enumerate(sentences):
        for gram in sentence:
            index[gram].append(number)
    telling = {gram: numbers for gram, numbers in index.items() if len(numbers) < COMMON}

    def near(words: list[str]) -> bool:
        own, shared = trigrams(words), collections.Counter[int]()
        for gram in own:
            shared.update(telling.get(gram, ()))
        best = shared.most_common(3)
        return any(count >= NEAR * (len(own) + len(sentences[number]) - count) for number, count in best)

    return near


def documents(path: Path) -> Iterator[list[str]]:
    """Read the sentences of each document of a text, or of the comments of a CoNLL-U file."""
    document, treebank = list[str](), path.suffix == ".conllu"
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in itertools.chain(lines, ["# newdoc" if treebank else ""]):
            if line.startswith("# newdoc") if treebank else not line.strip():
                yield from [document] if document else []
                document = []
            elif not treebank or line.startswith("# text ="):
                document.append(line.removeprefix("# text =").strip())


def texts(data: Path, draw: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Read successive sentences and their kind; those of kind ``held`` are for no training.

    ``clauses`` are parts of sentences as short as the headlines that the text lacks, a block of them.
    """

    def clauses(sentences: list[str]) -> list[str]:
        pieces = (piece.strip() for sentence in sentences for piece in PIECE.split(sentence))
        return [piece for piece in pieces if 4 <= len(piece.split()) <= 14][:BLOCK]

    for name, share in SOURCES.items():
        whole = list(documents(data / "corpora" / f"{name}.txt.xz"))
        for document in whole:
            if draw.random() < HELD_OUT:
                yield "held", document[:200]
                continue
            for part in (document[start : start + 400] for start in range(0, len(document), 400)):
                if draw.random() < share:
                    yield name, part
                elif draw.random() < 0.3:
                    yield "clauses", clauses(part)
        for document in whole if name == "wikipedia" else []:
            if draw.random() < 0.25:
                yield "clauses", clauses(document)
    for name in TREEBANKS:
        for document in documents(data / "treebank" / name / "train.conllu"):
            yield name, document
    threads = collections.defaultdict(list)
    for name in ("faq", "queries"):
        rows = (data / "retrieval" / "stackfaq" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        for row in rows[1:]:
            threads[row.split("\t")[1]].append(row.split("\t")[2])
    for questions in threads.values():
        yield "stackfaq", list(dict.fromkeys(questions))


def select_text(data: Path, folder: Path, sentences: int) -> None:
    """Write ``train.txt``, ``held.txt`` and, for skip-grams, ``more.txt``, a blank line between blocks."""
    near, draw, counts = evaluation(data), random.Random(0), collections.Counter[str]()
    blocks, held_out = list[list[str]](), list[list[str]]()
    for kind, text in texts(data, draw):
        usable = []
        for sentence in text:
            words = WORD.findall(sentence.lower())
            if SHORT <= len(words) <= LONG and "formula_" not in sentence:
                is_near = near(words)
                counts["removed" if is_near else kind] += 1
                usable += [] if is_near else [sentence]
        pieces = (usable[start : start + BLOCK] for start in range(0, len(usable), BLOCK))
        target = held_out if kind == "held" else blocks
        target += [piece for piece in pieces if len(piece) > 1]
    draw.shuffle(blocks)
    draw.shuffle(held_out)
    first = int(np.searchsorted(np.cumsum([len(block) for block in blocks]), sentences)) + 1
    for name, chosen in (("train", blocks[:first]), ("more", blocks[first:]), ("held", held_out)):
        files.write_text(folder / f"{name}.txt", "".join("\n".join(block) + "\n\n" for block in chosen))
    files.write_json(folder / "text.json", counts)


def teach(folder: Path, teacher: str) -> None:
    """Write the teacher's vectors of the text, ``train.npy``, from parts that stay on disk."""
    import torch

    from multiview.pretrained import load_pretrained

    model = load_pretrained(teacher, all_modules=True, device="cpu").to(torch.bfloat16)
    sentences = [line for line in (folder / "train.txt").read_text(encoding="utf-8").splitlines() if line]
    parts = [folder / "taught" / f"{start:08}.npy" for start in range(0, len(sentences), CHUNK)]
    parts[0].parent.mkdir(exist_ok=True)
    for number, part in enumerate(parts):
        if not part.exists():
            chunk = sentences[number * CHUNK : (number + 1) * CHUNK]
            files.write_array(part, model.encode(chunk, show_progress_bar=True).astype(np.float16))
    taught_ST = np.concatenate([np.load(part) for part in parts]).astype(np.float32)
    files.write_array(folder / "train.npy", taught_ST)


def skip_grams(folder: Path) -> None:
    """Write ``skip.npy``, skip-grams [W, E] of the most frequent words of all text, and their counts."""
    from gensim.models import Word2Vec

    from corpora.text import Tokenizer

    tokenizer = Tokenizer("spacy", running=False)
    text = "".join((folder / f"{name}.txt").read_text(encoding="utf-8") for name in ("train", "more"))
    sentences = [[w.lower() for w in tokenizer.line(line)] for line in text.splitlines() if line]
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS]
    model = Word2Vec(sg=1, vector_size=SKIP, min_count=1, seed=0, workers=1, window=5, negative=5)
    model.build_vocab_from_freq(dict(frequent), corpus_count=len(sentences))
    model.train(sentences, total_examples=len(sentences), epochs=3)
    files.write_text(folder / "words.tsv", "".join(f"{word}\t{count}\n" for word, count in frequent))
    files.write_array(folder / "skip.npy", np.stack([model.wv[word] for word, _ in frequent]))


def fit_words(folder: Path, teacher: str) -> None:
    """Write ``words.bin``: words whose mean comes nearest to the teacher's sentences, beside skip-grams."""
    from gensim.models import KeyedVectors

    from multiview.words.table import sif_weights

    rows = (folder / "words.tsv").read_text(encoding="utf-8").splitlines()
    words, counts = zip(*(row.split("\t") for row in rows), strict=True)
    weight_W1 = sif_weights(np.array(counts, np.int64), 1 + len(words))[1:, None]
    taught_WT = taught_words(folder, teacher, words, weight_W1)
    skip_WE = np.load(folder / "skip.npy") * weight_W1
    skip_WE *= SKIP_SHARE * np.sqrt(np.mean(taught_WT**2) / np.mean(skip_WE**2))
    vectors = KeyedVectors(TAUGHT + SKIP)
    vectors.add_vectors(list(words), np.concatenate([taught_WT, skip_WE], axis=1).astype(np.float32))
    with files.atomic_path(folder / "words.bin") as temporary:
        vectors.save_word2vec_format(str(temporary), binary=True)


def taught_words(folder: Path, teacher: str, words: Sequence[str], weight_W1: Any) -> Any:
    """Fit words so that their mean has the direction of the teacher's vector of each sentence, [W, T]."""
    import torch
    from torch.nn.functional import cosine_similarity, embedding_bag, normalize

    from multiview.pretrained import load_pretrained
    from multiview.words.table import Vocabulary
    from parsing.trees.cache import TreeCache

    cache, vocabulary = TreeCache.open(folder / "trees"), Vocabulary(words, case="lower")
    batch = cache.read(0, len(cache), ("token",), vocabulary)
    token_N, end_S1 = torch.from_numpy(batch.row.astype(np.int64)), batch.sentence_offsets
    wanted_ST = torch.from_numpy(np.load(folder / "train.npy"))
    single_WT = torch.from_numpy(
        load_pretrained(teacher, all_modules=True, device="cpu").to(torch.bfloat16).encode(list(words))
    )
    single_WT = normalize(single_WT, dim=1)
    table_WT = torch.zeros(1 + len(words), TAUGHT)
    table_WT[1:] = (single_WT - single_WT.mean(0)) * torch.from_numpy(weight_W1)
    bias_T, sparse, dense = torch.zeros(TAUGHT), torch.optim.SparseAdam, torch.optim.Adam
    optimisers: Any = [sparse([table_WT.requires_grad_()], RATE), dense([bias_T.requires_grad_()], RATE)]
    torch.manual_seed(0)
    steps = [part for _ in range(PASSES) for part in torch.randperm(len(cache)).split(BATCH)]
    for step, chosen_B in enumerate(steps):
        bags = [token_N[end_S1[row] : end_S1[row + 1]] for row in chosen_B.tolist()]
        offset_B = torch.tensor([0, *map(len, bags[:-1])]).cumsum(0)
        mean_BT = embedding_bag(torch.cat(bags), table_WT, offset_B, mode="mean", sparse=True)
        loss = 1 - cosine_similarity(mean_BT + bias_T, wanted_ST[chosen_B]).mean()
        loss.backward()
        rate = RATE * min(1, (step + 1) / 50) * (0.505 + 0.495 * math.cos(math.pi * step / len(steps)))
        for optimiser in optimisers:
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
            optimiser.zero_grad()
        if step % 100 == 0:
            print(f"words: step {step} of {len(steps)}, 1 - cosine {loss.item():.4f}", flush=True)
    return table_WT.detach().numpy()[1:]


def main(config: TrainEncoderConfig) -> None:
    """Run the stages that are not there yet."""
    for name in ("corpora", "treebank", "retrieval", *EVALUATION):
        if not (config.data / name).is_dir():
            raise UserError(f"--data {config.data}: has no folder {name}")
    folder, begun = config.output, time.monotonic()

    def stage(name: str, make: Callable[[], object]) -> None:
        if not (folder / name).exists():
            make()
        print(f"{name}: {(time.monotonic() - begun) / 3600:.2f} h", flush=True)

    def command(*words: object) -> None:
        subprocess.run([sys.executable, "-m", *map(str, words)], check=True)

    stage("text.json", lambda: select_text(config.data, folder, config.sentences))
    command("parsing.run", folder / "train.txt", "--output", folder / "trees")
    teacher: list[object] = []
    options = [*ALONE]
    if config.teacher != "none":
        stage("train.npy", lambda: teach(folder, config.teacher))
        stage("skip.npy", lambda: skip_grams(folder))
        stage("words.bin", lambda: fit_words(folder, config.teacher))
        teacher = ["--teacher", folder / "train.npy"]
        options = [f"--vectors={folder / 'words.bin'}", f"--objective.teacher={folder / 'train.npy'}"]
    options += [f"--preset={Path(__file__).with_suffix('.toml')}", f"--loop.epochs={config.epochs}"]
    options += [f"--trees={folder / 'trees'}", f"--output={folder}", "--name=views"]
    command("torch.distributed.run", "--nproc-per-node=2", "-m", "multiview.train", *options)
    stage("model/config.json", lambda: pack_model(folder / "views", folder / "model", "spelling"))
    structure = "--structure", STRUCTURE
    command("multiview.readout", folder / "model", folder / "trees", *teacher, *structure)


TITLE = "Train the sentence encoder of the package."
cli = Command(TrainEncoderConfig, main, "tools.train_encoder", TITLE, owns=lambda config: config.output)


if __name__ == "__main__":
    sys.exit(cli())
