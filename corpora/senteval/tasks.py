"""The SentEval tasks by name: aliases, published row counts, where their files lie.

Names are those of the original toolkit (Conneau & Kiela 2018); aliases are the names used in papers. Row
counts are the published ones, so that a truncated or enlarged copy is noticed: one well-known mirror
shipped a SUBJ on which models score above 99 %.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from runtime.errors import UserError, did_you_mean

BINARY_TASKS = ("MR", "CR", "SUBJ", "MPQA")
"""A file per class; class 1 is read first."""
STS_SUBSETS: Mapping[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # the fourth, SMT, is not free and not in SentEval
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
RELATEDNESS_TASKS = ("STSBenchmark", "SICKRelatedness")
"""Scored by a regression that is trained, and by the cosine of test pairs."""
TRIPLET_TASKS = ("SemAntoNeg", "SugarCrepe++")
"""Rows of three pairs, of which the first says the same (:mod:`corpora.senteval.structure`)."""
STRUCTURE_TASKS = ("Binding", "HANS", "PAWS", "MinimalPairs", *TRIPLET_TASKS, "Opposites")
"""Pairs of nearly the same words (:mod:`corpora.senteval.structure`), by cosine; not of the toolkit."""
BOOK_TASKS = ("Authors", "Neighbours")
"""Made of the books in the package (:mod:`corpora.books`), without files; not of the toolkit."""
PROBING_FILES: Mapping[str, str] = {
    "Length": "sentence_length",
    "WordContent": "word_content",
    "Depth": "tree_depth",
    "TopConstituents": "top_constituents",
    "BigramShift": "bigram_shift",
    "Tense": "past_present",
    "SubjNumber": "subj_number",
    "ObjNumber": "obj_number",
    "OddManOut": "odd_man_out",
    "CoordinationInversion": "coordination_inversion",
}
_THREE = ("train", "dev", "test")
_SICK = {
    "train": ("SICK/SICK_train.txt",),
    "dev": ("SICK/SICK_trial.txt",),
    "test": ("SICK/SICK_test_annotated.txt",),
}
_FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "MR": {"all": ("MR/rt-polarity.pos", "MR/rt-polarity.neg")},
    "CR": {"all": ("CR/custrev.pos", "CR/custrev.neg")},
    "SUBJ": {"all": ("SUBJ/subj.objective", "SUBJ/subj.subjective")},
    "MPQA": {"all": ("MPQA/mpqa.pos", "MPQA/mpqa.neg")},
    "TREC": {"train": ("TREC/train_5500.label",), "test": ("TREC/TREC_10.label",)},
    "MRPC": {split: (f"MRPC/msr_paraphrase_{split}.txt",) for split in ("train", "test")},
    "SICKRelatedness": _SICK,
    "SICKEntailment": _SICK,
    "STSBenchmark": {split: (f"STS/STSBenchmark/sts-{split}.csv",) for split in _THREE},
    **{
        name: {
            subset: tuple(f"STS/{name}-en-test/STS.{part}.{subset}.txt" for part in ("input", "gs"))
            for subset in subsets
        }
        for name, subsets in STS_SUBSETS.items()
    },
    "SST2": {split: (f"SST/binary/sentiment-{split}",) for split in _THREE},
    "SST5": {split: (f"SST/fine/sentiment-{split}",) for split in _THREE},
    "SNLI": {split: tuple(f"SNLI/{part}.{split}" for part in ("s1", "s2", "labels")) for split in _THREE},
    **{name: {"all": (f"{file}.txt",)} for name, file in PROBING_FILES.items()},
    "Authors": {},
    "Neighbours": {},
    "Binding": {},
    "HANS": {"all": ("structure/heuristics_evaluation_set.txt",)},
    "PAWS": {"all": ("structure/paws_wiki_dev.tsv",)},
    "SemAntoNeg": {"all": ("structure/semantoneg_dev.tsv",)},
    "SugarCrepe++": {
        part: (f"structure/sugarcrepe_pp_{part}_dev.tsv",)
        for part in ("swap_obj", "swap_att", "replace_rel", "replace_att", "replace_obj")
    },
    "Opposites": {
        "paraphrases": ("structure/paws_wiki_dev.tsv",),
        "claims": ("structure/cannot_wikifactcheck_english_0.tsv",),
        "reviews": ("structure/cannot_sentiment_labelled_sentences.tsv",),
    },
    "MinimalPairs": {
        "SICK": ("downstream/SICK/SICK_test_annotated.txt",),
        "SNLI": tuple(f"nli/snli_{split}.tsv" for split in ("dev", "test")),
        "CAD": tuple(f"nli/cad_snli_revised_combined_{split}.tsv" for split in _THREE),
    },
}
"""Files of each task by split: those of structure below the data folder, others below ``downstream/`` or
``probing/`` in it."""
TASK_NAMES = tuple(_FILES)
"""Every task this project reads, in the order they are reported."""

_PROBING_COUNTS = {"train": 100_000, "dev": 10_000, "test": 10_000}
_SICK_COUNTS = {"train": 4_500, "dev": 500, "test": 4_927}
PUBLISHED_ROWS: Mapping[str, Mapping[str, int]] = {
    "MR": {"all": 10_662},
    "CR": {"all": 3_775},
    "SUBJ": {"all": 10_000},
    "MPQA": {"all": 10_606},
    "TREC": {"train": 5_452, "test": 500},
    "MRPC": {"train": 4_076, "test": 1_725},
    "SICKRelatedness": _SICK_COUNTS,
    "SICKEntailment": _SICK_COUNTS,
    "STSBenchmark": {"train": 5_749, "dev": 1_500, "test": 1_379},
    "STS12": dict(zip(STS_SUBSETS["STS12"], (750, 750, 459, 750, 399), strict=True)),
    "STS13": dict(zip(STS_SUBSETS["STS13"], (189, 750, 561), strict=True)),
    "STS14": dict(zip(STS_SUBSETS["STS14"], (450, 300, 750, 750, 750, 750), strict=True)),
    "STS15": dict(zip(STS_SUBSETS["STS15"], (375, 750, 375, 750, 750), strict=True)),
    "STS16": dict(zip(STS_SUBSETS["STS16"], (254, 249, 230, 244, 209), strict=True)),
    "SST2": {"train": 67_349, "dev": 872, "test": 1_821},
    "SST5": {"train": 8_544, "dev": 1_101, "test": 2_210},
    "SNLI": {"train": 549_367, "dev": 9_842, "test": 9_824},
    **dict.fromkeys(PROBING_FILES, _PROBING_COUNTS),
}
"""Rows per split (per subset for STS12-16) according to the papers and the task pages."""

ALIASES: Mapping[str, str] = {
    "SICK-R": "SICKRelatedness",
    "SICK-E": "SICKEntailment",
    "STS-B": "STSBenchmark",
    "SST": "SST2",
    "SST-binary": "SST2",
    "SST-fine": "SST5",
    "SentLen": "Length",
    "WC": "WordContent",
    "TreeDepth": "Depth",
    "TopConst": "TopConstituents",
    "BShift": "BigramShift",
    "SubjNum": "SubjNumber",
    "ObjNum": "ObjNumber",
    "SOMO": "OddManOut",
    "CoordInv": "CoordinationInversion",
}
"""The names that papers use."""
GROUPS: Mapping[str, Sequence[str]] = {
    "mv": (*BINARY_TASKS, "TREC", "MRPC", "SICKRelatedness"),
    "sts": (*STS_SUBSETS, *RELATEDNESS_TASKS),
    "sst": ("SST2", "SST5"),
    "probing": tuple(PROBING_FILES),
    "structure": STRUCTURE_TASKS,
    "books": BOOK_TASKS,
    "all": tuple(task for task in TASK_NAMES if task not in ("SNLI", *STRUCTURE_TASKS, *BOOK_TASKS)),
}
"""Tasks by the name of their group; mv are those of the multi-view paper."""


def _fold(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


_CANONICAL = {_fold(name): name for name in TASK_NAMES} | {
    _fold(alias): name
    for alias, name in (*ALIASES.items(), *((stem, name) for name, stem in PROBING_FILES.items()))
}


def canonical_task(name: str, groups: Collection[str] = ()) -> str:
    """Return the toolkit's name of a task: ``"sick-r"`` -> ``"SICKRelatedness"``; case and hyphens are free.

    Another name is refused; the message has the nearest one, all others, and ``groups``.
    """
    folded = _fold(name)
    if folded not in _CANONICAL:
        near = did_you_mean(name, [*TASK_NAMES, *ALIASES, *groups])
        listed = [f"known: {', '.join(TASK_NAMES)}", f"also called {', '.join(ALIASES)}"]
        if groups:
            listed.append(f"groups: {', '.join(groups)}")
        raise UserError(f"unknown task {name!r}: {near}({'; '.join(listed)})")
    return _CANONICAL[folded]


def task_paths(name: str, data: Path) -> dict[str, list[Path]]:
    """Return where a task's files should lie, in the data folder or in ``senteval/`` there, per split."""
    kind = "probing/" if name in PROBING_FILES else "" if name in STRUCTURE_TASKS else "downstream/"
    inner = data / "senteval"
    paths: dict[str, list[Path]] = {}
    for split, files in _FILES[name].items():
        for file in files:
            folder = (kind + file).partition("/")[0]
            home = inner if (inner / folder).is_dir() and not (data / folder).is_dir() else data
            paths.setdefault(split, []).append(home / (kind + file))
    return paths


def expand_tasks(text: str) -> list[str]:
    """Return names and groups, separated by commas or blanks, as canonical names, each once."""
    names: list[str] = []
    for word in text.replace(",", " ").split():
        names += GROUPS.get(word.lower(), [word])
    if not names:
        raise UserError("--tasks is empty")
    return list(dict.fromkeys(canonical_task(name, tuple(GROUPS)) for name in names))


def data_folder(data: Path | None, tasks: Collection[str] = TASK_NAMES) -> Path:
    """Return the folder of SentEval's data: the one named, else ``$MULTIVIEW_DATA``, else ``data``.

    It must be there, unless none of the ``tasks`` needs a file.
    """
    folder = data or Path(os.environ.get("MULTIVIEW_DATA") or "data")
    if not folder.is_dir() and any(_FILES[name] for name in tasks):
        raise UserError(
            f"{folder}: no such folder; --data wants SentEval's data folder (downstream/, probing/), as the "
            "download script at github.com/facebookresearch/SentEval writes it"
        )
    return folder
