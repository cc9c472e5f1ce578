"""What a model's card and the end of a training say."""

from dataclasses import replace
from pathlib import Path

import pytest

from multiview.config import preset
from multiview.folder.card import Card

START = {"anchors": 9, "step": 0, "loss": 2.0, "accuracy@1": 0.1, "recall@1": 0.1, "recall@1/words": 0.2}
START |= {"recall@1/both": 0.15}
PARSERS = {"dependency": {"name": "builtin-dep"}, "constituency": {"name": "builtin-const"}}


class FakeTrees(list):
    """What a verdict asks of a tree cache: its folder, its sentences, its parsers."""

    folder, identity = Path("trees"), PARSERS


GIVEN = {"words": "fixed", "vectors": "glove.txt"}


@pytest.mark.parametrize(
    ("best", "options", "sentences", "signs", "command"),
    [
        ({"recall@1": 0.3}, {}, 900, ["beside"], "multiview.readout models/mine trees"),
        ({"recall@1/both": 0.25}, {}, 900, ["beside"], "multiview.readout models/mine trees"),
        (
            {},
            {"vectors": "none"},
            900,
            ["beside", "no gain"],
            "mine-fixed --output models --words fixed",
        ),
        ({}, GIVEN, 900, ["beside", "no gain"], "go on from the encoder in the package"),
        (START, {}, 900, ["beside", "kept", "no gain"], "go on from the encoder in the package"),
    ],
)
def test_a_verdict_ends_with_one_command_for_this_corpus(best, options, sentences, signs, command) -> None:
    config = replace(preset("laptop", start="none", **options), name="mine", output=Path("models"))
    scores = {**START, "step": 5, "loss": 1.5, "accuracy@1": 0.25, "recall@1": 0.2, **best}
    verdict = Card(config, FakeTrees([0] * sentences)).verdict(START, scores)
    assert [label for label, _ in verdict] == ["gained", "neighbours", *signs, "next"]
    text = dict(verdict)
    for part in (
        "loss 2.0000 at the start",
        f"at step {scores['step']}",
        f"10.0% and {scores['accuracy@1']:.1%}",
    ):
        assert part in text["gained"]
    recall = f"10.0% at the start, {scores['recall@1']:.1%} at step {scores['step']}, 20.0% by the average"
    assert recall in text["neighbours"]
    assert command in text["next"] and text["next"].count("python -m") == 1


def test_what_is_behind_start_or_words_is_no_gain() -> None:
    def no_gain(options: dict[str, str], **best: float) -> str:
        scores = {**START, "step": 5, **{f"recall@1{name}": value for name, value in best.items()}}
        verdict = Card(preset("laptop", start="none", **options), FakeTrees()).verdict(START, scores)
        return dict(verdict).get("no gain", "")

    assert no_gain({}, **{"/both": 0.15, "": 0.1}).startswith("over its start and the average of its words:")
    assert no_gain({}, **{"/both": 0.18, "": 0.1}).startswith("over the average of its words:")
    assert no_gain({"beside": "nothing"}, **{"/both": 0.3, "": 0.1}).startswith("over its start and")
    assert no_gain({"beside": "words"}, **{"/both": 0.3, "": 0.4}) == ""
    ((label, text),) = Card(preset("laptop", start="none"), FakeTrees()).verdict(
        {}, {"anchors": 0, "step": 3}
    )
    assert label == "gained" and text.startswith("unknown"), "nothing was held out"


@pytest.mark.parametrize(
    ("views", "beside", "both", "helps"),
    [
        ("dep,const", None, 0.3, True),
        ("dep,const", None, 0.2, False),
        ("dep,const", "words", 0.1, True),
        ("dep,const", "nothing", 0.3, False),
        ("dep,const,bag", "words", 0.3, False),
    ],
)
def test_words_stand_beside_the_views_where_they_help(views, beside, both: float, helps: bool) -> None:
    card = Card(preset("laptop", start="none", views=views, beside=beside), FakeTrees())
    assert card.includes_words({"recall@1": 0.2, "recall@1/both": both}) == helps
    assert card.includes_words({}) == (helps and beside == "words"), "nothing was held out"
