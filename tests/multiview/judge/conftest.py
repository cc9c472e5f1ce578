"""The judge in the package, loaded once."""

import pytest

from multiview.judge import Judge


@pytest.fixture(scope="session")
def judge() -> Judge:
    return Judge.load()
