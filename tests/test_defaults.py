"""Compares each default that a page states with that of the command."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from multiview.config import ContinueConfig, NewViewsConfig, TrainConfig
from multiview.judge.__main__ import JudgeConfig
from multiview.judge.weights import THRESHOLD
from multiview.names.options import ModelOptions
from multiview.training.continued import loss_of
from parsing.run import ParseConfig
from runtime.files import read_json
from senteval_runner.run import SentEvalConfig
from tests.fixtures.processes import ROOT

pytestmark = pytest.mark.repo
pytest.importorskip("faiss")
search_index = importlib.import_module("multiview.libraries.search_index")
GOES_ON, NEW, JUDGE = ContinueConfig(), NewViewsConfig(), JudgeConfig(a="A.", b="B.")
(BUILTIN,) = (ROOT / "multiview/builtin").glob("*/config.json")
WITH_TEXT, PAIRS_ALONE = loss_of(GOES_ON), loss_of(ContinueConfig(pairs=(Path("pairs.tsv"),)))
STATED: dict[str, dict[str, tuple[Any, ...]]] = {
    "tutorial.md": {
        "The defaults are {} and {}, and {} and {} for pairs without a text": (
            *(WITH_TEXT.keep, WITH_TEXT.temperature, PAIRS_ALONE.keep, PAIRS_ALONE.temperature),
        ),
        "trains new views, `{}` and `{}` unless `--views` names others": tuple(NEW.view_list),
        "`--preset {}`, the default": (TrainConfig().preset,),
        "Their words are by default the vectors of `{}`": (NEW.vectors.partition(":")[0],),
    },
    "equations.md": {
        "(`--objective.score bilinear`) or none (`{}`, the default)": (NEW.objective.score,),
        "The default, `--objective.denominator {}`": (NEW.objective.denominator,),
        "All are off by default": (),
        "By default training goes on from a model": (),
        "The weights {}, {} and {} are `--objective.views`, `.meaning` and `.keep`": (
            *(WITH_TEXT.views, WITH_TEXT.meaning, WITH_TEXT.keep),
        ),
        "$\\tau_m = {}$ is `--objective.temperature`; for pairs without a text the defaults are {} and {}": (
            *(WITH_TEXT.temperature, PAIRS_ALONE.keep, PAIRS_ALONE.temperature),
        ),
        "`{}`, the default, goes through the trees level by level": (NEW.encoder.engine,),
    },
    "papers/mv.md": {
        "the objective of the preset `{}`: the {} product as score": (
            *(TrainConfig().preset, NEW.objective.score),
        ),
        "every word dropped with probability {}": (NEW.table.dropout,),
        "segments of {} sentences, a rate of {} with {} decay": (
            *(NEW.loop.batch, {0.001: "1e-3"}.get(NEW.learning_rate), NEW.loop.schedule),
        ),
    },
    "add-a-view.md": {"By default a third part, the mean of the words, joins where it finds more": ()},
    "answers.md": {
        "The weights are `{}` by default": (JUDGE.similarity_weights,),
        "what `choose_threshold` last found, else `{}`": (THRESHOLD,),
    },
    "promises.md": {"with {} products (the default)": (ModelOptions(model="m").products,)},
    "scaling.md": {
        "by default it looks into a {}": ({4: "quarter"}.get(search_index.CELLS_PER_PROBE),),
        "into segments, by default one for each process": (),
        "the default is `{}`, because the command never ran on a GPU": (ParseConfig(corpus="books").device,),
    },
    "senteval.md": {"`--trees` (default `{}`)": (SentEvalConfig(models=("m",)).trees,)},
    "structure.md": {"A share of {}, the default": (read_json(BUILTIN)["structure"],)},
    "glossary.md": {
        "the model that training went on from, `{}` by default": (GOES_ON.start,),
        "`{}` is the default, `paper` is what": (TrainConfig().preset,),
    },
}
"""By page, sentences with the defaults that they state left out."""


NO_VALUE = (
    "lists its options with defaults",
    "`default` | Adam, 10 folds",
    "TREC, `default`",
    "stores a default",
    "default type and device",
    "the package loads by default may be used in a product",
)
"""Other places of the word."""


def text_of(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


def statements(page: str) -> list[str]:
    """The sentences of a page with the values that the commands have."""
    texts = [
        [f"{x:g}" if isinstance(x, float) else str(x) for x in values] for values in STATED[page].values()
    ]
    return [sentence.format(*values) for sentence, values in zip(STATED[page], texts, strict=True)]


@pytest.mark.parametrize("page", STATED)
def test_a_default_that_a_page_states_is_that_of_the_command(page: str) -> None:
    text = text_of(page)
    assert [sentence for sentence in statements(page) if sentence not in text] == []


def test_every_default_that_a_page_states_is_compared() -> None:
    """But for those of pages that tell of measurements."""
    for path in (ROOT / "docs").glob("*.md"):
        if path.name not in ("results.md", "experiments.md", "log.md"):
            text = text_of(path.name)
            for known in (*(statements(path.name) if path.name in STATED else ()), *NO_VALUE):
                text = text.replace(known, "")
            assert re.findall(r".{40}\bdefaults?\b.{40}", text) == [], path.name


def test_what_pages_say_is_off_or_undecided_by_default() -> None:
    assert (NEW.objective.same, NEW.objective.teacher, NEW.encoder.pooling) == (0, None, "root")
    assert TrainConfig().resolve() == GOES_ON and NEW.beside is None and GOES_ON.loop.segments == 0
