"""Train the sentence encoder that ships: text, trees, a teacher's vectors, words, views, a read-out.

    python -m tools.train_encoder --data DATA --teacher all-MiniLM-L6-v2

1. Text of several kinds is cut into blocks of successive sentences. The blocks are shuffled, so that the
   first sentences, however many, are a sample of all kinds. A sentence is left out if its word trigrams have
   a Jaccard similarity of 0.8 or more with those of an evaluation sentence.
2. A word vector is the concatenation of two vectors. The first starts from the teacher's vector of the word;
   it is trained so that the mean over a sentence comes near the teacher's vector of the sentence (as in
   tokenlearn, Tulkens & van Dongen 2024). The second is a skip-gram vector of the same text.
3. Views over these words are trained to the teacher's vectors.
4. The read-out is a ridge regression from all raw numbers to the teacher's vectors.

The files of each stage are kept, so that a stopped run can be continued. The same options and number of
threads give the same bits. The hours are printed.
"""

import collections
import gzip
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

from multiview.names.opened import open_encoder
from multiview.words.compact import pack_model
from runtime import files
from runtime.cli import Command, Count, configuration
from runtime.errors import UserError

SOURCES = {"wikipedia": 1.0, "books": 0.25, "masc": 1.0, "us_addresses": 1.0}  # probability of a part
TREEBANKS = ("ewt", "gum")
PART = 400  # sentences of a document that are drawn together
BLOCK = 100  # sentences of a block
MIN_WORDS, MAX_WORDS = 3, 40  # of a sentence
HELD_OUT_SHARE = 0.01  # probability that a document is held out
MAX_SIMILARITY = (
    0.8  # a sentence with this similarity to an evaluation sentence, or a higher one, is left out
)
COMMON = 2000  # a trigram of this many evaluation sentences is not used to compare sentences
VOCABULARY = 40_000  # words
TEACHER_DIM, SKIP_GRAM_DIM = 384, 192  # sizes of the two vectors of a word
SKIP_GRAM_SCALE = 0.35  # root mean square of skip-grams, divided by that of the first vectors
PASSES, LEARNING_RATE, WORD_VECTOR_BATCH = 6, 3e-3, 1024  # of the training of word vectors
WORD = re.compile(r"\w+")
CLAUSE_END = re.compile(r"\s*[,;:()\u2014]\s*|\s--\s")
STRUCTURE = 0.15  # default share of structure


@configuration
class TrainEncoderConfig:
    """Options of ``tools.train_encoder``; the defaults made the encoder that ships, on bfloat16 vectors."""

    data: Path
    """Folder with corpora, treebanks and evaluation sets."""
    evaluation: tuple[str, ...] = ("senteval", "structure", "nli")
    """Folders in --data with the evaluation sets, from which nothing learns."""
    teacher: str = "all-MiniLM-L6-v2"
    """The encoder to learn from, named as in senteval_runner.run."""
    sentences: Count = 400_000
    """Sentences to parse, teach and train on."""
    epochs: Count = 3
    """Passes of training."""
    output: Path = Path("runs/encoder")
    """Folder of all stages."""


def trigrams(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return all runs of three successive words; the words of a shorter sentence are one run."""
    return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))}


class EvaluationSentences:
    """The trigrams of all evaluation sentences: of every column of every row of every file."""

    def __init__(self, folders: Sequence[Path]) -> None:
        distinct = set[tuple[str, ...]]()
        for path in [path for folder in folders for path in folder.rglob("*") if path.is_file()]:
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = content.decode("latin-1" if "TREC" in path.name else "utf-8", "replace")
            rows = (WORD.findall(cell.lower()) for cell in re.split("[\t\n]", text))
            distinct |= {tuple(words) for words in rows if len(words) >= 4}
        self.trigrams = [trigrams(words) for words in sorted(distinct)]
        numbers_of_trigram = collections.defaultdict(list)
        for number, sentence_trigrams in enumerate(self.trigrams):
            for trigram in sentence_trigrams:
                numbers_of_trigram[trigram].append(number)
        self.numbers = {
            gram: numbers for gram, numbers in numbers_of_trigram.items() if len(numbers) < COMMON
        }

    def is_near(self, words: list[str]) -> bool:
        """Tell whether a sentence is too similar to an evaluation sentence.

        Of the evaluation sentences the three with the most trigrams in common are compared.
        """
        own_trigrams = trigrams(words)
        shared_counts = collections.Counter[int]()
        for trigram in own_trigrams:
            shared_counts.update(self.numbers.get(trigram, ()))
        for number, shared in shared_counts.most_common(3):
            union = len(own_trigrams) + len(self.trigrams[number]) - shared
            if shared >= MAX_SIMILARITY * union:
                return True
        return False


def read_documents(path: Path) -> list[list[str]]:
    """Return the sentences of each document of a text, or of a CoNLL-U file, whose comments have them."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as stream:
        text = stream.read()
    if path.suffix == ".conllu":
        parts = [re.findall("^# text =(.*)", part, re.MULTILINE) for part in text.split("# newdoc")]
    else:
        parts = [part.split("\n") for part in re.split(r"\n\s*\n", text.strip())]
    return [[sentence.strip() for sentence in part] for part in parts if part]


def read_texts(data: Path, draw: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yield kinds of text with successive sentences of this kind; those of the kind ``held`` are held out.

    The kind ``clauses`` has parts of sentences, because headlines and other short texts are missing.
    """

    def clauses_of(sentences: list[str]) -> list[str]:
        clauses: list[str] = []
        for sentence in sentences:
            clauses += [clause.strip() for clause in CLAUSE_END.split(sentence)]
        return [clause for clause in clauses if 4 <= len(clause.split()) <= 14][:BLOCK]

    for name, share in SOURCES.items():
        documents = read_documents(data / "corpora" / f"{name}.txt.xz")
        for document in documents:
            if draw.random() < HELD_OUT_SHARE:
                yield "held", document[: PART // 2]
                continue
            for first in range(0, len(document), PART):
                part = document[first : first + PART]
                if draw.random() < share:
                    yield name, part
                elif draw.random() < 0.3:
                    yield "clauses", clauses_of(part)
        if name == "wikipedia":
            for document in documents:
                if draw.random() < 0.25:
                    yield "clauses", clauses_of(document)
    for name in TREEBANKS:
        for document in read_documents(data / "treebank" / name / "train.conllu"):
            yield name, document
    threads = collections.defaultdict(list)
    for name in ("faq", "queries"):
        rows = (data / "retrieval" / "stackfaq" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        for row in rows[1:]:
            _, thread, question = row.split("\t")[:3]
            threads[thread].append(question)
    for questions in threads.values():
        yield "stackfaq", list(dict.fromkeys(questions))


def select_text(data: Path, evaluation_folders: Sequence[Path], folder: Path, sentences: int) -> None:
    """Write the selected text, with a blank line between blocks.

    ``train.txt`` has the first blocks, with at least this number of ``sentences``; ``more.txt`` has the other
    blocks, from which only skip-grams are learned; ``held.txt`` has the held-out blocks.
    """
    evaluation, draw = EvaluationSentences(evaluation_folders), random.Random(0)
    counts = collections.Counter[str]()
    blocks: list[list[str]] = []
    held_out_blocks: list[list[str]] = []
    for kind, text in read_texts(data, draw):
        usable = []
        for sentence in text:
            words = WORD.findall(sentence.lower())
            if len(words) < MIN_WORDS or len(words) > MAX_WORDS or "formula_" in sentence:
                continue
            if evaluation.is_near(words):
                counts["removed"] += 1
            else:
                counts[kind] += 1
                usable.append(sentence)
        target = held_out_blocks if kind == "held" else blocks
        for first in range(0, len(usable), BLOCK):
            block = usable[first : first + BLOCK]
            if len(block) > 1:
                target.append(block)
    draw.shuffle(blocks)
    draw.shuffle(held_out_blocks)
    train_blocks = int(np.searchsorted(np.cumsum([len(block) for block in blocks]), sentences)) + 1
    parts = {"train": blocks[:train_blocks], "more": blocks[train_blocks:], "held": held_out_blocks}
    for name, part in parts.items():
        files.write_text(folder / f"{name}.txt", "".join("\n".join(block) + "\n\n" for block in part))
    files.write_json(folder / "text.json", counts)


def encode_by_teacher(folder: Path, teacher: str) -> None:
    """Write the teacher's vectors of the training text, ``train.npy``.

    Vectors of a stopped run are kept in the folder ``taught``, and are not computed again.
    """
    sentences = [
        line.split() for line in (folder / "train.txt").read_text(encoding="utf-8").splitlines() if line
    ]
    files.write_array(folder / "train.npy", open_encoder(teacher, cache=folder / "taught").encode(sentences))


def fit_skip_grams(folder: Path) -> tuple[dict[str, int], Any]:
    """Return the counts of the most frequent words of all text, and their skip-gram vectors [W, E]."""
    from gensim.models import Word2Vec

    from corpora.text import Tokenizer

    tokenizer = Tokenizer("spacy", running=False)
    text = "".join((folder / f"{name}.txt").read_text(encoding="utf-8") for name in ("train", "more"))
    sentences = [[word.lower() for word in tokenizer.tokenize(line)] for line in text.splitlines() if line]
    all_counts = collections.Counter(word for sentence in sentences for word in sentence)
    counts = dict(sorted(all_counts.items(), key=lambda item: (-item[1], item[0]))[:VOCABULARY])
    model = Word2Vec(sg=1, vector_size=SKIP_GRAM_DIM, min_count=1, seed=0, workers=1, window=5, negative=5)
    model.build_vocab_from_freq(counts, corpus_count=len(sentences))
    model.train(sentences, total_examples=len(sentences), epochs=3)
    return counts, np.stack([model.wv[word] for word in counts])


def fit_words(folder: Path, teacher: str) -> None:
    """Write ``words.bin``: word vectors trained by the teacher, concatenated with skip-gram vectors."""
    from gensim.models import KeyedVectors

    from multiview.words.vocabulary import sif_weights

    counts, skip_WE = fit_skip_grams(folder)
    words = list(counts)
    weight_W1 = sif_weights(np.array([*counts.values()]), 1 + len(words))[1:, None]
    taught_WT = fit_to_teacher(folder, teacher, words, weight_W1)
    skip_WE *= weight_W1
    skip_WE *= SKIP_GRAM_SCALE * np.sqrt(np.mean(taught_WT**2) / np.mean(skip_WE**2))
    vectors = KeyedVectors(TEACHER_DIM + SKIP_GRAM_DIM)
    vectors.add_vectors(words, np.concatenate([taught_WT, skip_WE], axis=1).astype(np.float32))
    with files.atomic_path(folder / "words.bin") as temporary:
        vectors.save_word2vec_format(str(temporary), binary=True)


def fit_to_teacher(folder: Path, teacher: str, words: Sequence[str], weight_W1: Any) -> Any:
    """Return word vectors whose mean over a sentence has the direction of the teacher's vector, [W, T].

    ``weight_W1`` are the weights of words by frequency, by which the teacher's vectors of single words are
    multiplied at the start.
    """
    import torch
    from torch.nn.functional import cosine_similarity, embedding_bag, normalize

    from multiview.words.vocabulary import Vocabulary
    from parsing.trees.cache import TreeCache

    cache, vocabulary = TreeCache.open(folder / "trees"), Vocabulary(words, case="lower")
    batch = cache.read(0, len(cache), ("token",), vocabulary)
    token_N, end_S1 = torch.from_numpy(batch.row.astype(np.int64)), batch.sentence_offsets
    target_ST = torch.from_numpy(np.load(folder / "train.npy"))
    single_WT = normalize(torch.from_numpy(open_encoder(teacher).encode(words)), dim=1)
    table_WT = torch.zeros(1 + len(words), TEACHER_DIM)
    table_WT[1:] = (single_WT - single_WT.mean(0)) * torch.from_numpy(weight_W1)
    bias_T = torch.zeros(TEACHER_DIM, requires_grad=True)
    table_optimiser = torch.optim.SparseAdam([table_WT.requires_grad_()], LEARNING_RATE)
    optimisers: Any = [table_optimiser, torch.optim.Adam([bias_T], LEARNING_RATE)]
    torch.manual_seed(0)
    batches = [
        rows_B for _ in range(PASSES) for rows_B in torch.randperm(len(cache)).split(WORD_VECTOR_BATCH)
    ]
    for step, rows_B in enumerate(batches):
        bags = [token_N[end_S1[row] : end_S1[row + 1]] for row in rows_B.tolist()]
        offset_B = torch.tensor([0, *map(len, bags[:-1])]).cumsum(0)
        mean_BT = embedding_bag(torch.cat(bags), table_WT, offset_B, mode="mean", sparse=True)
        loss = 1 - cosine_similarity(mean_BT + bias_T, target_ST[rows_B]).mean()
        loss.backward()
        decay = 0.505 + 0.495 * math.cos(math.pi * step / len(batches))
        for optimiser in optimisers:
            optimiser.param_groups[0]["lr"] = LEARNING_RATE * min(1, (step + 1) / 50) * decay
            optimiser.step()
            optimiser.zero_grad()
        if step % 100 == 0:
            print(f"words: step {step} of {len(batches)}, 1 - cosine {loss.item():.4f}", flush=True)
    return table_WT.detach().numpy()[1:]


def main(config: TrainEncoderConfig) -> None:
    """Run the stages that are not finished.

    Raises UserError if a folder of data is missing.
    """
    for name in ("corpora", "treebank", "retrieval", *config.evaluation):
        if not (config.data / name).is_dir():
            raise UserError(f"--data {config.data}: has no folder {name}")
    folder, began = config.output, time.monotonic()

    def run_stage(name: str, make: Callable[[], object]) -> None:
        if not (folder / name).exists():
            make()
        print(f"{name}: {(time.monotonic() - began) / 3600:.2f} h", flush=True)

    def run_command(*words: object) -> None:
        subprocess.run([sys.executable, "-m", *map(str, words)], check=True)

    evaluation = [config.data / name for name in config.evaluation]
    run_stage("text.json", lambda: select_text(config.data, evaluation, folder, config.sentences))
    run_command("parsing.run", folder / "train.txt", "--output", folder / "trees")
    run_stage("train.npy", lambda: encode_by_teacher(folder, config.teacher))
    run_stage("words.bin", lambda: fit_words(folder, config.teacher))
    run_command(
        *("torch.distributed.run", "--nproc-per-node=2", "-m", "multiview.train"),
        *(f"--preset={Path(__file__).with_suffix('.toml')}", f"--loop.epochs={config.epochs}"),
        *(f"--vectors={folder / 'words.bin'}", f"--objective.teacher={folder / 'train.npy'}"),
        *(f"--trees={folder / 'trees'}", f"--output={folder}", "--name=views"),
    )
    run_stage("model/config.json", lambda: pack_model(folder / "views", folder / "model", "spelling"))
    read_out = ("--teacher", folder / "train.npy", "--structure", STRUCTURE)
    run_command("multiview.readout", folder / "model", folder / "trees", *read_out)


TITLE = "Train the sentence encoder of the package."
cli = Command(TrainEncoderConfig, main, "tools.train_encoder", TITLE, folder_of=lambda config: config.output)


if __name__ == "__main__":
    sys.exit(cli())
