"""The mutations fit the code they break (``make mutations`` runs them)."""

from __future__ import annotations

import pytest

from tests.test_commands import ROOT
from tools.mutations import Mutation, read_mutations


@pytest.mark.parametrize("mutation", read_mutations(), ids=lambda m: m.equation)
def test_the_equation_stands_once_in_its_file(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    for word in mutation.tests:
        assert (ROOT / word).is_file()
