"""Score models on analogies, for UNI's Tables 4 and 6 and its Figures 1 to 4.

A question a : b = c : d is answered by 3CosAdd, which takes the candidate whose vector has the highest cosine
with b − a + c; all vectors are first scaled to length 1. A candidate within 1e-6 of the answer's cosine ranks
before the answer, so that an encoder with the same vector for all texts scores 0.

The averages of a level (UNI Table 4) are the accuracy over all semantic questions, that over all syntactic
ones, and the mean of the two. The overall average is the mean over the levels. We read the paper such that
the first two are means over questions, not over categories. The scores of the paper's SALBERT agree with
this: its semantic phrases (55.8) and sentences (56.4) both follow from its transfer rates in Table 6 if the
accuracy on word questions was 74.5 %.

Transfer (UNI Table 6) is measured on semantic questions. Every phrase or sentence question was made from a
word question. Let P (N) be the questions whose word question is answered right (wrong), and PP (PN) those
among them that are answered right themselves:

    PPR = |PP| / |P|        right in words, and in context
    PNR = |PN| / |N|        wrong in words, but right in context

Legend of dimension suffixes: Q questions, K candidates, D embedding size.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from multiview.names.opened import SentenceVectors
from runtime.errors import extra
from runtime.files import sha256_file
from runtime.vectors import divide_by_norms
from senteval_runner.evaluation_trees import open_model
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Column, Page, Score, Section, Table
from studies.analogies.config import AnalogiesConfig
from studies.analogies.questions import CATEGORIES, LEVELS, SEMANTIC, Analogy, questions_file, read_questions
from studies.runner import Cell, Figures, StudyRun, read_published, score_table

with extra("report"):
    import pandas as pd

TRANSFER_NOTE = (
    "PPR (PNR): of the semantic questions that are right (wrong) in words, the percentage that is right in "
    "phrases or sentences."
)
SOURCE = "published (UNI), on the authors' own questions, which are not at hand"
PATTERN = (("man", "woman"), ("king", "queen"), ("dad", "mom"))
"""The pairs of UNI's Figure 3 (its Table 7)."""
DIFFERENCES_SHOWN = 15
"""Number of differences that are drawn for a category and level, at most."""
NAME_IN_FIGURE_4 = {"capital-common": "capital-country", "capital-world": "capital-country"}
"""The names of categories in UNI's Figure 4, which has both sets of capitals as one category."""
TIE = 1e-6
"""Cosines that differ by less count as equal."""
VectorOfText = Mapping[str, NDArray[np.floating]]
"""The vector of every text of the questions, of length 1."""


def text_vectors(questions: Sequence[Analogy], encode: SentenceVectors) -> VectorOfText:
    """Return the unit vector of every text of the questions."""
    texts = list(dict.fromkeys(text for q in questions for text in q.texts))
    return dict(zip(texts, divide_by_norms(encode([text.split() for text in texts])), strict=True))


def answer_ranks(questions: Sequence[Analogy], vectors: VectorOfText) -> NDArray[np.int64]:
    """Return the rank of the right answer among the candidates of each question, from 1, [Q]."""
    ranks = []
    for q in questions:
        a_D, b_D, c_D = (vectors[text].astype(np.float64) for text in (q.a, q.b, q.c))
        target_D = divide_by_norms((b_D - a_D + c_D)[None])[0]
        score_K = np.array([vectors[text] for text in q.candidates]) @ target_D
        ranks.append((score_K >= score_K[0] - TIE).sum())
    return np.array(ranks)


def summarise(questions: Sequence[Analogy], ranks: Sequence[int] | NDArray[np.int64]) -> Figures:
    """Return the figures of a model, from the ranks of the right answers; scores are fractions.

    ``averages`` and ``transfer`` are by column of UNI's Tables 4 and 6, such as "word sem" and "phrase PPR";
    a PPR is None if no word question is answered right. ``accuracy``, and ``rank_counts``, how often the
    answer was 1st, 2nd, ... (UNI Figures 1 and 2), are by level and category. ``overall`` is the mean of the
    levels' averages (UNI Table 4, All), or None if a level is missing.
    """
    table = pd.DataFrame({"level": [q.level for q in questions], "category": [q.category for q in questions]})
    table["rank"] = ranks
    table["right"] = table["rank"] == 1
    table["kind"] = ["sem" if q.category in SEMANTIC else "syn" for q in questions]
    right_words = {
        q.name for q, rank in zip(questions, ranks, strict=True) if q.level == "word" and rank == 1
    }
    table["from right word"] = [q.name in right_words for q in questions]
    figures: Figures = {"accuracy": {}, "averages": {}, "rank_counts": {}, "transfer": {}}
    level_averages = []
    for level in dict.fromkeys(table["level"]):
        rows = table[table["level"] == level]
        by_category = rows.groupby("category", sort=False)
        figures["accuracy"][level] = by_category["right"].mean().to_dict()
        figures["rank_counts"][level] = {
            str(name): np.bincount(ranks_Q, minlength=3)[1:].tolist() for name, ranks_Q in by_category["rank"]
        }
        means = rows.groupby("kind")["right"].mean().to_dict()
        if len(means) == 2:
            means["Avg."] = fmean(means.values())
            level_averages.append(means["Avg."])
        figures["averages"] |= {f"{level} {kind}": mean for kind, mean in means.items()}
        if level != "word":
            rates = rows[rows["kind"] == "sem"].groupby("from right word")["right"].mean()
            figures["transfer"] |= {f"{level} PPR": rates.get(True), f"{level} PNR": rates.get(False)}
    has_all = len(level_averages) == len(LEVELS)
    return {**figures, "overall": fmean(level_averages) if has_all else None}


def score(config: AnalogiesConfig, run: StudyRun) -> Page:
    """Score the models on the questions, and return the report."""
    file = questions_file(config.questions)
    questions = read_questions(file)
    models = run.open_all({spec: partial(open_model, spec) for spec in config.models})

    @cache
    def vectors(name: str) -> VectorOfText:
        return text_vectors(questions, models[name].encode)

    def compute(name: str, folder: Path) -> Figures:
        return summarise(questions, answer_ranks(questions, vectors(name)))

    cells = {
        name: Cell(name=name, identity=[sha256_file(file), *model.identity()], compute=partial(compute, name))
        for name, model in models.items()
    }
    scores = run.compute(cells)
    averages = {name: {**figures["averages"], "All": figures["overall"]} for name, figures in scores.items()}
    sections = [Section("Accuracy (%)", [_table(averages, "published-averages.csv")])]
    for level in LEVELS:
        accuracies = {name: figures["accuracy"].get(level, {}) for name, figures in scores.items()}
        sections.append(Section(f"Accuracy by category, {level}s (%)", [_table(accuracies)]))
    transfer = _table(
        {name: figures["transfer"] for name, figures in scores.items()}, "published-transfer.csv"
    )
    sections.append(Section("Transfer from words (%)", [transfer], note=TRANSFER_NOTE))
    for name, figures in scores.items():
        sections.append(Section(f"{name}: rank of the right answer, % of questions", [*_ranks(figures)]))
        planes = [pattern(questions, vectors(name)), differences(questions, vectors(name))]
        sections.append(Section(f"{name}: pairs in the plane", planes))
    return Page("Analogies of words, phrases and sentences", sections)


def _table(fractions: Mapping[str, Mapping[str, float | None]], published: str = "") -> Table:
    """Return a table in percent with a row for each model, and below them the rows of ``published``, if any.

    Columns are those of the published table or, without one, the categories.
    """
    paper_rows = read_published(Path(__file__).with_name(published)) if published else {}
    names = next(iter(paper_rows.values())) if published else CATEGORIES
    rows = {
        model: {name: None if value is None else 100 * value for name, value in values.items()}
        for model, values in fractions.items()
    }
    columns = [Column(name, digits=1, best="high") for name in names]
    return score_table(["model"], columns, rows, paper_rows, quoted_source=SOURCE)


def pair_texts(questions: Sequence[Analogy], level: str, category: str) -> dict[tuple[str, str], list[str]]:
    """Return the two texts of each distinct pair of a category at a level, by the two words of the pair."""
    words = {q.name: q for q in questions if q.level == "word"}
    pairs: dict[tuple[str, str], list[str]] = {}
    for q in questions:
        if q.level == level and q.category == category:
            word = words[q.name]
            pairs.setdefault((word.a, word.b), [q.a, q.b])
            pairs.setdefault((word.c, word.answer), [q.c, q.answer])
    return pairs


def pattern(questions: Sequence[Analogy], vectors: VectorOfText) -> Block:
    """Draw words, phrases and sentences of one category in a plane, with pairs joined (UNI Figure 3)."""
    present = {q.category for q in questions}
    category = "male-female" if "male-female" in present else next(c for c in CATEGORIES if c in present)
    texts: list[str] = []
    classes: list[int] = []
    for number, level in enumerate(LEVELS):
        texts_of_pair = pair_texts(questions, level, category)
        pairs = sorted(texts_of_pair, key=lambda pair: pair not in PATTERN)[: len(PATTERN)]
        texts += [text for pair in pairs for text in texts_of_pair[pair]]
        classes += [number] * (2 * len(pairs))
    links = [(left, left + 1) for left in range(0, len(texts), 2)]
    vectors_ND = np.array([vectors[text] for text in texts])
    caption = f"PCA of pairs of {category}"
    return plots.scatter(vectors_ND, classes, LEVELS, by="pca", links=links, caption=caption)


def differences(questions: Sequence[Analogy], vectors: VectorOfText) -> Block:
    """Draw the differences of the two vectors of pairs, coloured by category (UNI Figure 4)."""
    name_of = {name: NAME_IN_FIGURE_4.get(name, name) for name in CATEGORIES}
    names = list(dict.fromkeys(name_of.values()))
    rows: list[NDArray[np.floating]] = []
    classes: list[int] = []
    for (category, name), level in product(name_of.items(), LEVELS):
        pairs = list(pair_texts(questions, level, category).values())[:DIFFERENCES_SHOWN]
        rows += [vectors[right] - vectors[left] for left, right in pairs]
        classes += [names.index(name)] * len(pairs)
    caption = "t-SNE of right minus left in words, phrases and sentences"
    differences_ND = np.array(rows) if rows else np.empty((0, 1))
    return plots.scatter(differences_ND, classes, names, by="tsne", caption=caption)


def _ranks(scores: Figures) -> Iterator[Block]:
    """Yield for each level bars of the ranks of right answers, by semantic category (UNI Figures 1 and 2)."""
    for level, by_category in scores["rank_counts"].items():
        semantic = [name for name in by_category if name in SEMANTIC]
        last_rank = max((len(by_category[name]) for name in semantic), default=0)
        ranks = [f"rank {rank + 1}" for rank in range(last_rank)]
        percentages = {}
        for category in semantic:
            counts = by_category[category]
            for rank, count in zip(ranks, counts, strict=False):
                percentages[rank, category] = Score(100 * count / sum(counts))
        yield plots.bars(ranks, semantic, percentages, caption=f"{level}s")
