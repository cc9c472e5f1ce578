"""The numberings of a batch of trees, as the page of the equations shows them."""

import re

import numpy as np

from multiview.engines.plan import plan_const
from parsing.trees.arrays import binarise
from parsing.trees.batch import Batch, ConstituencyParse
from tests.fixtures.processes import ROOT


def test_the_page_numbers_a_tree_as_plans_do() -> None:
    rows = re.findall(
        r"^(node|rank|slot) +((?:\d +)+)", (ROOT / "docs/equations.md").read_text(), re.MULTILINE
    )
    page = {name: [int(number) for number in numbers.split()] for name, numbers in rows}
    spans = [(0, 5), (0, 3), (1, 3), (3, 5)]
    starts, ends = np.array(spans).T
    tree = binarise(ConstituencyParse(np.zeros(5, int), starts, ends, np.ones(4, int)), dummy_label=2)
    plan = plan_const(
        Batch(
            sentence_offsets=np.array([0, 5]),
            flags=np.zeros(1, np.uint8),
            fields=("left", "right", "const_height"),
            left=tree.left,
            right=tree.right,
            const_height=np.array([1, 2, 1, 3], np.int32),
        )
    )
    assert page["node"] == [*range(9)]
    assert [plan.node_of_rank.tolist().index(node) for node in page["node"]] == page["rank"]
    assert plan.node_slot.tolist() == page["slot"]
