"""The presets of the papers: their values, and the message that names what they need."""

from pathlib import Path
from typing import Any

import pytest

from studies.finetune.examples import PER_CLASS
from studies.finetune.training import PAIR_BATCH
from studies.passages.ranker import CROSS_BATCH, CROSS_RATE
from studies.runner import read_presets
from tests.fixtures.commands import cli_of

BURT = {
    **{"batch_size": 16, "negatives": 3, "per_class": 354_000, "learning_rate": 2e-5, "epochs": 2.0},
    **{"held_out": 0.03, "pooling": "mean", "concatenation": "uv-diff", "backbone": "bert-base-uncased"},
    "objectives": ("nli", "identification", "classification"),
}
ALBURT = {"backbone": "albert-xxlarge-v2", "held_out": 0, "per_class": 343_000}
SALBERT = {"backbone": "albert-xxlarge-v2", "held_out": 0, "objectives": ("nli",)}
SEQ_MT = {"epochs": 5, "batch_size": 32, "learning_rate": 1e-5, "limit": 0, "dev_rows": 0, "splits": "paper"}
LAYERS = {"protocol": "default", "poolings": (), "concatenate": ("top,bottom",), "limit": None, "mlp": 50}
PASSAGES = {"margin": 0, "keep": "all", "layers": ("top,bottom",), "poolings": ("mean",), "cross_epochs": 3}
FAQ = {"runs": 5, "sampling": ("retrieved",), "epochs": 2, "learning_rate": 2e-5}


@pytest.mark.parametrize(
    ("study", "preset", "options", "message"),
    [
        ("burt", "paper", BURT, "--preset paper needs --nli, --nli-dev, --ppdb: SNLI"),
        ("burt", "uni", ALBURT, "needs --nli, --ppdb: SNLI"),
        ("burt", "uni-nli", SALBERT, "needs --nli: the training"),
        ("burt", "emp", {"backbone": "bert-base-uncased"}, "needs --nli: the training"),
        ("multitask", "paper", SEQ_MT, "needs --quora, --nli, --nli-dev, --nli-test: quora_dup"),
        ("layers", "paper", LAYERS, "needs --encoders: GloVe"),
        ("passages", "paper", PASSAGES, "needs --sets: folders of WikiPassageQA"),
        ("faq", "paper", FAQ, "300 pairs, 1,200 training and 200 test queries"),
    ],
)
def test_the_preset_has_the_papers_values_and_names_what_it_needs(
    study: str, preset: str, options: dict[str, Any], message: str, tmp_path: Path, capsys
) -> None:
    cli = cli_of(f"studies.{study}")
    values = cli.config(**{"output": tmp_path, **read_presets(cli.config)[preset]})
    assert {name: getattr(values, name) for name in options} == options
    assert cli(["--preset", preset, "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_batches_and_models_are_those_of_the_papers() -> None:
    """The rest of each recipe is compared with its equations by the goldens."""
    assert (PAIR_BATCH, CROSS_BATCH, CROSS_RATE, PER_CLASS) == (16, 16, 2e-5, 354_000)
    faq, layers = (read_presets(cli_of(f"studies.{name}").config)["paper"] for name in ("faq", "layers"))
    assert len(faq["models"]) == 6 and faq["retriever"] == faq["models"][0]
    assert len(layers["backbones"]) == 3
