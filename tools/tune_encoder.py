"""Tune an encoder, its words included, until cosines within a batch are the teacher's.

    python -m tools.tune_encoder --data DATA --start runs/encoder/model --output runs/tuned

The loss of a batch is 1 - cosine with the teacher's vectors, turned to where the start's meanings lie, plus
a hundred times the mean squared difference of the cosines of all its pairs. The text has captions and the
sentences of inferences beside what :mod:`tools.train_encoder` reads, and none near an evaluation sentence. In
the last pass the words stay, rounded to the 4 bits that they are stored in. The stages before training are
kept, so that a stopped run begins with the training; the same options give the same bits on one machine.

Legend of dimension suffixes: B sentences of a batch, N of a text, K numbers of a meaning, T of the teacher,
W words, U distinct words of a batch, E numbers of a word.
"""

import collections
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, normalize
from torch.optim import Adam, SparseAdam

from corpora.inputs import read_table
from multiview.encoders.meaning import sample_ranges
from multiview.folder.files import Model, load_model, model_folder, model_record, save_model
from multiview.names.opened import open_encoder
from multiview.training.data import StepSource, open_trees
from multiview.training.gradient import MultiViewNetwork
from multiview.training.objective import Grades
from multiview.words.compact import pack_model, pack_words
from parsing.trees.batch import Batch
from runtime import files
from runtime.cli import Command, Count, Positive, configuration
from runtime.errors import UserError
from runtime.progress import progress
from runtime.training_step import cosine_decay, ramp
from tools.train_encoder import MAX_WORDS, MIN_WORDS, WORD, EvaluationSentences, read_texts

INFERENCES = {
    "snli": ("nli/snli_test.tsv",),
    "cad": ("nli/cad_snli_revised_combined_train.tsv",),
    "mnli": ("nli/mnli_dev_matched_1000.tsv", "nli/mnli_dev_mismatched_1000.tsv"),
}
"""Files of pairs, of which the sentences are text."""
SENTENCES = {
    "snli": 14_000, "cad": 9_000, "mnli": 4_000, "wikipedia": 36_000, "books": 8_000, "masc": 16_000,
    "us_addresses": 4_000, "clauses": 16_000, "ewt": 8_000, "gum": 4_000, "stackfaq": 2_500,
}  # fmt: skip
"""How many sentences there are of each kind, if it has as many."""
COUNTERFACTUAL = ("original_dev", "original_test", "revised_combined_dev", "revised_combined_test")
EVALUATION = (
    *("senteval", "structure", "retrieval/covidfaq", "retrieval/wikiqa", "nli/snli_dev.tsv"),
    *("nli/breaking_nli.tsv", *(f"nli/cad_snli_{part}.tsv" for part in COUNTERFACTUAL)),
)
"""Folders and files of sentences near which there is no text."""
PAIR_WEIGHT = 100.0
CLIP, WARM_UP = 5.0, 0.02


@configuration
class TuneEncoderConfig:
    """Options of ``tools.tune_encoder``; the defaults made the encoder that ships."""

    data: Path
    """Folder with corpora, treebanks and evaluation sets."""
    start: str = "builtin"
    """Model folder with a read-out and fixed words, or builtin."""
    teacher: str = "all-MiniLM-L6-v2"
    """The encoder to learn from, named as in senteval_runner.run."""
    epochs: Count = 3
    """Passes of training; the words stay in the last one."""
    batch: Count = 256
    """Sentences that are compared with each other."""
    learning_rate: Positive = 5e-4
    """Highest rate of views and read-out."""
    word_rate: Positive = 0.02
    """Highest rate of words, in root mean squares of their numbers."""
    output: Path = Path("runs/tuned")
    """Folder of all stages."""


def select_text(data: Path, folder: Path) -> None:
    """Write ``text.txt``, one sentence a line, of all kinds in random order, and ``text.json``, how many."""
    evaluation, draw = EvaluationSentences([data / name for name in EVALUATION]), random.Random(1)
    sentences_of_kinds = collections.defaultdict[str, dict[str, None]](dict)
    for kind, names in INFERENCES.items():
        for name in names:
            for row in read_table(data / name, ("sentence1", "sentence2")):
                sentences_of_kinds[kind] |= dict.fromkeys(row.cells)
    for kind, text in read_texts(data, random.Random(0)):
        sentences_of_kinds[kind] |= dict.fromkeys(text)
    chosen, counts = list[str](), {}
    for kind, count in SENTENCES.items():
        sentences = list(sentences_of_kinds[kind])
        draw.shuffle(sentences)
        kept = list[str]()
        for sentence in sentences:
            words = WORD.findall(sentence.lower())
            has_length = MIN_WORDS <= len(words) <= MAX_WORDS
            if has_length and "formula_" not in sentence and not evaluation.is_near(words):
                kept.append(sentence)
            if len(kept) == count:
                break
        counts[kind] = len(kept)
        chosen += kept
    draw.shuffle(chosen)
    files.write_text(folder / "text.txt", "\n".join(chosen) + "\n")
    files.write_json(folder / "text.json", counts)


def teach(folder: Path, teacher: str) -> None:
    """Write the teacher's vectors of the text, ``teacher.npy``, with what is kept of a stopped run."""
    sentences = [line.split() for line in (folder / "text.txt").read_text(encoding="utf-8").splitlines()]
    files.write_array(
        folder / "teacher.npy", open_encoder(teacher, cache=folder / "taught").encode(sentences)
    )


class Tuning:
    """A network in training: views, read-out and words, beside the teacher's vectors of a text."""

    def __init__(self, config: TuneEncoderConfig, start: Model) -> None:
        own, self.config = start.network, config
        if own.readout is None or own.words.mode != "fixed":
            raise UserError(f"--start {config.start}: has no read-out, or trained words; give another model")
        trees = open_trees(config.output / "trees")
        teacher_NT = normalize(torch.from_numpy(np.load(config.output / "teacher.npy")).float(), dim=1)
        self.network = MultiViewNetwork(own.views, own.words, own.config, own.encoder_list)
        self.network.readout, self.network.scale = own.readout.requires_grad_(), own.scale
        assert own.words.fixed_vectors is not None
        self.words_WE = torch.from_numpy(np.array(own.words.fixed_vectors[:], np.float32)).requires_grad_()
        own.words.fixed_vectors = self.words_WE.detach().numpy()  # of one memory
        self.source = StepSource(
            trees, self.network, boundary="none", micro_batch=0, seed=0, teacher=teacher_NT.numpy()
        )
        self.rows_N = np.arange(len(trees))
        self.axes_TK = self._rotation(self.rows_N[:: max(len(trees) // 4000, 1)])
        self.weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        word_rate = config.word_rate * float(self.words_WE.detach().square().mean().sqrt())
        self.optimisers = [
            (Adam(self.weights, config.learning_rate), config.learning_rate),
            (SparseAdam([self.words_WE], word_rate), word_rate),
        ]

    def forward(self, rows_B: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return the meanings of sentences of the text, [B, K], and the teacher's vectors, [B, T]."""
        none = torch.zeros(0, dtype=torch.long)
        step = self.source.prepare_sentences(np.sort(rows_B), Grades(none, none, none.float()))
        (segment,) = step.segments
        assert step.vectors is not None and segment.teacher is not None and self.network.readout is not None
        row_U = step.table_rows - 1
        is_listed_U = (row_U >= 0) & (row_U < len(self.words_WE))
        listed_UE = embedding(row_U.clamp(0, len(self.words_WE) - 1), self.words_WE, sparse=True)
        leaves_UE = torch.where(is_listed_U[:, None], listed_UE, step.vectors)
        (batch,) = segment.micro_batches
        views = self.network.encode(batch.tokens, batch.plans, [leaves_UE])
        return self.network.readout(torch.cat(views, dim=1)), segment.teacher

    @torch.no_grad()
    def _rotation(self, rows_N: np.ndarray) -> Tensor:
        """Return the rotation of the teacher's vectors to the meanings (Schönemann 1966), [T, K]."""
        parts = [self.forward(rows_B) for rows_B in np.array_split(rows_N, math.ceil(len(rows_N) / 256))]
        meaning_NK, teacher_NT = map(torch.cat, zip(*parts, strict=True))
        left_TT, _, right_KK = torch.linalg.svd(teacher_NT.T @ meaning_NK, full_matrices=False)
        axes_TK: Tensor = left_TT @ right_KK
        return axes_TK

    def loss(self, rows_B: np.ndarray) -> Tensor:
        """Return the loss of a batch."""
        meaning_BK, teacher_BT = self.forward(rows_B)
        apart = 1 - (meaning_BK * (teacher_BT @ self.axes_TK)).sum(dim=1).mean()
        difference_BB = meaning_BK @ meaning_BK.T - teacher_BT @ teacher_BT.T
        pairs = len(rows_B) * (len(rows_B) - 1)
        return apart + PAIR_WEIGHT * difference_BB.fill_diagonal_(0).square().sum() / pairs

    def train(self) -> None:
        """Train; of the rate's half cosine the last pass has the end."""
        config, rows_N = self.config, self.rows_N
        steps_of_pass = len(rows_N) // config.batch
        steps = steps_of_pass * config.epochs
        with progress(total=steps * config.batch, description="tune") as bar:
            for epoch in range(config.epochs):
                if epoch == config.epochs - 1:
                    self.round_words()
                order_N = np.random.default_rng([0, epoch]).permutation(rows_N)
                for step in range(steps_of_pass):
                    done = epoch * steps_of_pass + step
                    loss = self.loss(order_N[step * config.batch : (step + 1) * config.batch])
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(self.weights, CLIP)
                    for optimiser, rate in self.optimisers:
                        decay = ramp(done + 1, WARM_UP * steps) * cosine_decay(done / steps)
                        optimiser.param_groups[0]["lr"] = rate * decay
                        optimiser.step()
                        optimiser.zero_grad()
                    bar.set_postfix({"loss": round(loss.item(), 4)})
                    bar.update(config.batch)

    def sample(self) -> list[Batch]:
        """Read the sentences over which features are brought to one scale."""
        trees = self.source.cache
        ranges = sample_ranges([(0, len(trees))])
        return [trees.read(*span, self.source.fields, self.network.words.vocabulary) for span in ranges]

    def round_words(self) -> None:
        """Round the words to what will be stored, and train them no more."""
        packed = pack_words(self.words_WE.detach())
        self.words_WE = torch.from_numpy(packed[:])
        self.network.words.fixed_vectors = packed
        del self.optimisers[1]


def main(config: TuneEncoderConfig) -> None:
    """Run the stages that are not there yet."""
    folder = config.output
    if not (folder / "text.json").exists():
        select_text(config.data, folder)
    command = [
        sys.executable,
        "-m",
        "parsing.run",
        str(folder / "text.txt"),
        "--output",
        str(folder / "trees"),
    ]
    subprocess.run(command, check=True)
    if not (folder / "teacher.npy").exists():
        teach(folder, config.teacher)
    source = model_folder(config.start)
    record, start = model_record(source), load_model(source)
    tuning = Tuning(config, start)
    tuning.train()
    network = tuning.network.eval()
    assert network.readout is not None
    network.readout.origin += f"; tuned with the views over {len(tuning.rows_N):,} sentences of text.txt"
    network.measure(tuning.sample(), "text.txt")
    start.network = network
    structure, size = record.structure, record.structure_size
    save_model(start, folder / "tuned", source, structure=structure, structure_size=size)
    pack_model(folder / "tuned", folder / "model")
    print(f"model      {folder / 'model'}")


TITLE = "Tune the sentence encoder of the package by a teacher."
cli = Command(TuneEncoderConfig, main, "tools.tune_encoder", TITLE, folder_of=lambda config: config.output)


if __name__ == "__main__":
    sys.exit(cli())
