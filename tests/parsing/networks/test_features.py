"""Vocabularies, word types and padded batches against a lookup word by word."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parsing.networks.features import BEGIN, END, PAD, UNKNOWN, ParserVocabulary, TypeTable, make_batch

SENTENCES = [["The", "cat", "sat", "."], ["the", "dog", "sat"], ["A", "cat", "ran", "<pad>", "<pad>"]]


def test_rare_words_and_special_looking_words_are_unknown():
    vocabulary = ParserVocabulary.build(SENTENCES, min_count=2)
    assert vocabulary.words == ("<pad>", "<unk>", "<bos>", "<eos>", "cat", "sat", "the")
    table = TypeTable(vocabulary)
    words, _, _ = table.features(table.rows(["The", "the", "dog", "<pad>", "<eos>"]))
    assert words.tolist() == [6, 6, UNKNOWN, UNKNOWN, UNKNOWN]


@given(st.lists(st.lists(st.text(max_size=30), min_size=1, max_size=6), min_size=1, max_size=5))
def test_a_batch_equals_word_by_word_lookup(sentences):
    vocabulary = ParserVocabulary.build(SENTENCES, min_count=1, max_characters=7)
    ids = {w: i for i, w in enumerate(vocabulary.words) if i > END}
    characters = {c: i for i, c in enumerate(vocabulary.characters) if i > END}
    for end in (False, True):
        table = TypeTable(vocabulary)
        batch = make_batch(table, [table.rows(s) for s in sentences], end_boundary=end)
        assert batch.lengths_B.tolist() == [len(s) + 1 + end for s in sentences]
        assert batch.mask_BT().sum(1).tolist() == batch.lengths_B.tolist()
        for b, sentence in enumerate(sentences):
            expected = [(BEGIN, [BEGIN])]
            for token in sentence:
                spelled = [characters.get(c, UNKNOWN) for c in token[:7]] or [UNKNOWN]
                expected.append((ids.get(token.lower(), UNKNOWN), spelled))
            expected += [(END, [END])] * end
            for t in range(batch.types_BT.shape[1]):
                u = batch.types_BT[b, t]
                word, spelled = expected[t] if t < len(expected) else (PAD, [PAD])
                assert batch.words_U[u] == word
                assert batch.characters_UC[u][: batch.character_counts_U[u]].tolist() == spelled


def test_the_table_grows_and_forgets():
    table = TypeTable(ParserVocabulary.build(SENTENCES))
    tokens = [f"word{i}" for i in range(5000)]
    rows = table.rows(tokens)
    assert rows.tolist() == list(range(3, 5003))
    assert np.array_equal(table.rows(tokens), rows)
    table.clear()
    assert len(table) == 3
    assert table.rows(["cat"]).tolist() == [3]
