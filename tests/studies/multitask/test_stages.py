"""Configurations under SEQ-MT's names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.support.errors import UserError
from studies.kit.data import published, read_presets
from studies.multitask.config import MultitaskConfig
from studies.multitask.stages import Stage, name_of, parse_stages
from tests.conftest import ROOT

TABLE_1, TABLE_2 = (published(ROOT / f"studies/multitask/published-table-{n}.csv") for n in (1, 2))

SA, P, STS = Stage("sst"), Stage("quora"), Stage("sts")
TABLE = {
    "SA": (SA,),
    "P": (P,),
    "STS": (STS,),
    "SA-P-STS": (SA, P, STS),
    "SA-P-STS(C)": (SA, P, Stage("sts", "cls")),
    "SA-P-STS(M)": (SA, P, Stage("sts", "mean")),
    "SA-P(C)-STS(C)": (SA, Stage("quora", "cls"), Stage("sts", "cls")),
    "SA-P(M)-STS(M)": (SA, Stage("quora", "mean"), Stage("sts", "mean")),
    "SA-P(X)-STS(X)": (SA, Stage("quora", "max"), Stage("sts", "max")),
    "SA-P[sub]-STS(M)": (SA, Stage("quora", sampled=True), Stage("sts", "mean")),
    "SA-P[sub](M)-STS(M)": (SA, Stage("quora", "mean", sampled=True), Stage("sts", "mean")),
    "SA-P(M)*-STS(M)": (SA, Stage("quora", "mean", product=True), Stage("sts", "mean")),
    "SA-P-STS(M)-NLI(M)": (SA, P, Stage("sts", "mean"), Stage("nli", "mean")),
}
"""Table 1, row by row, and what its caption says the names mean."""


def test_the_grid_is_table_1_row_by_row() -> None:
    for preset in read_presets(MultitaskConfig).values():
        assert list(preset["stages"]) == list(TABLE) == list(TABLE_1)
        assert {name: parse_stages(name) for name in preset["stages"]} == TABLE


def test_the_default_is_the_papers_best_row(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (default,) = MultitaskConfig(output=tmp_path).stages
    assert default == max(TABLE_1, key=lambda name: TABLE_1[name]["Overall"]) == next(iter(TABLE_2))


@given(
    st.lists(
        st.builds(
            Stage,
            st.sampled_from(["quora", "nli"]),
            st.sampled_from(["cls", "mean", "max"]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_writing_then_reading_gives_the_same_stages(stages: list[Stage]) -> None:
    assert parse_stages(name_of(stages)) == tuple(stages)
    assert len({stage.slug for stage in stages}) == len(set(stages))


@pytest.mark.parametrize("bad", ["", "SST", "P(mean)", "P*", "STS(M)*", "SA(M)*", "P(M)[sub]", "p"])
def test_a_bad_stage_is_named(bad: str) -> None:
    with pytest.raises(UserError, match="stage"):
        parse_stages("SA-" + bad)
