"""The embedded corpus: markup to English, split by package, nothing imported, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora import pydocs
from corpora.pydocs import fresh_documents, prose, sources, split_of
from corpora.registry import open_corpus
from corpora.support.errors import UserError

DOCSTRING = """
    Sort the *items* of a list with ``key``, as :func:`sorted` does [1]_.

    The `manual <https://example.org>`_ says that it is stable::

        >>> sort([2, 1])
        this is code and is left out.

    Parameters
    ----------
    items : list of int, optional
        The values that are to be sorted; they
        are left as they are.
    key: the function that is called for each of them.

    .. code-block:: python

        for x in the_list_of_all: the code is not in the text.

    =====  ======
    name   meaning of the columns in this table.
    =====  ======

    - The first of the points is that it is fast.
    - The second of the points is
      that it goes on.

    sort(items, key=None) -> list of the items
"""


def test_markup_becomes_paragraphs() -> None:
    assert list(prose(DOCSTRING)) == [
        "Sort the items of a list with key, as sorted does.",
        "The manual says that it is stable:",
        "The values that are to be sorted; they are left as they are.",
        "the function that is called for each of them.",
        "The first of the points is that it is fast.",
        "The second of the points is that it goes on.",
    ]


COMMON = "This is the text that both of the methods have in common."


def test_documents_are_modules_and_classes_without_repetition(tmp_path: Path) -> None:
    shared = f'"""{COMMON}"""'
    first = (
        '"""The module is about the order of the things in it."""\nraise SystemExit("imported")\n'
        f"class A:\n  '''The class has a text that is its own.'''\n  def f(self):\n    {shared}\n"
        f"def g():\n  '''The function belongs to the module and not to a class.'''\n"
        "add_docstr(h, '''The text of this compiled function is an argument of a call.''')\n"
    )
    files = {"one.py": first, "two.py": f"def f():\n  {shared}\n", "three.py": "this is no Python"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    module, inner = fresh_documents({name: tmp_path / name for name in files})
    assert module == (
        "one.py",
        [
            "The module is about the order of the things in it.",
            "The function belongs to the module and not to a class.",
            "The text of this compiled function is an argument of a call.",
        ],
    )
    assert inner == ("one.py:A@3", ["The class has a text that is its own.", COMMON])


def test_the_splits_are_disjoint_and_the_default_is_train(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"heldout": 0, "train": 0}
    files = {}
    for name, path in sources().items():
        if path.stat().st_size < 60_000 and kept[split_of(name)] < 4:
            kept[split_of(name)] += 1
            files[name] = path
    monkeypatch.setattr(pydocs, "sources", lambda: files)
    opened = {split: open_corpus("pydocs", split=split) for split in (None, "train", "heldout", "all")}
    ids = {split: [document.id for document in corpus] for split, corpus in opened.items()}
    assert ids["train"] and ids["heldout"] and not set(ids["train"]) & set(ids["heldout"])
    assert sorted(ids["train"] + ids["heldout"]) == sorted(ids["all"])
    assert ids[None] == ids["train"]
    assert opened["train"].identity != opened["heldout"].identity
    with pytest.raises(UserError, match="--split dev"):
        open_corpus("pydocs", split="dev")
