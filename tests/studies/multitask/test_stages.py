"""The language of --stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.support.errors import UserError
from studies.multitask.stages import GRID, Stage, parse_stages


def test_a_stage_of_each_kind() -> None:
    assert parse_stages("sst, quora:mean*[sub],sts:cls,nli") == (
        Stage("sst"),
        Stage("quora", "mean", product=True, sampled=True),
        Stage("sts", "cls"),
        Stage("nli"),
    )


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
    assert parse_stages(",".join(map(str, stages))) == tuple(stages)
    assert len({stage.slug for stage in stages}) == len(set(stages))


@pytest.mark.parametrize(
    "bad", ["", "mnli", "sst:average", "quora*", "sts:mean*", "sst:mean*", "quora:mean[all]"]
)
def test_a_bad_stage_is_named(bad: str) -> None:
    with pytest.raises(UserError, match="stage"):
        parse_stages("sst," + bad)


def test_the_grid_has_thirteen_different_configurations() -> None:
    assert len({parse_stages(text) for text in GRID}) == 13
