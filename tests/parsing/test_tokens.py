"""Text where tokens are meant."""

from __future__ import annotations

import pytest

from corpora.support.errors import UserError
from parsing.models import load_constituency_parser, load_dependency_parser
from parsing.pipeline.parse_shard import parse_sentences


def test_a_string_is_no_list_of_tokens() -> None:
    dep, const = load_dependency_parser("builtin"), load_constituency_parser("builtin")
    for call in (dep.parse, const.parse, lambda sentences: parse_sentences(sentences, dep, const)):
        with pytest.raises(UserError, match=r"sentence 1 is the string 'The cat sat \.'; give a list"):
            call([["It", "rained", "."], "The cat sat ."])
        with pytest.raises(UserError, match="sentence 0 is the string 'The cat'"):
            call("The cat")
    assert [len(parse.heads) for parse in dep.parse([["The", "cat", "sat", "."]])] == [4]
