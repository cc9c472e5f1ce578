"""Words as integers against a lookup; padding and caches change nothing."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpora.characters import normalise_text
from parsing.networks.config import EncoderSizes
from parsing.networks.features import BEGIN, END, PAD, UNKNOWN, ParserVocabulary, TypeTable, make_batch
from parsing.networks.sentence_encoder import SentenceEncoder, TypeVectors
from runtime.compiled_math import FEW_SEQUENCES
from runtime.products import products_for

WORDS = [["The", "cat", "sat", "."], ["the", "dog", "sat"], ["A", "cat", "ran", "<pad>", "<pad>"]]
SENTENCES = [
    ["The", "cat", "sat", "on", "the", "extraordinarily-comfortable", "mat", "."],
    ["Cats", "sit"],
    ["x"],
    ["Why", "would", "anyone", "?", ""],
]
CONFIG = EncoderSizes(word_dim=5, character_dim=4, character_hidden=6, hidden=7, layers=2, end_boundary=True)


def test_rare_words_and_special_looking_words_are_unknown():
    table = TypeTable(ParserVocabulary.build(WORDS, min_count=2))
    words, _, _ = table.features(table.rows(["The", "the", "dog", "<pad>", "<eos>"]))
    assert words.tolist() == [6, 6, UNKNOWN, UNKNOWN, UNKNOWN]


@given(
    st.lists(st.lists(st.text(max_size=30), min_size=1, max_size=6), min_size=1, max_size=5), st.booleans()
)
def test_a_batch_equals_word_by_word_lookup(sentences, end):
    vocabulary = dataclasses.replace(ParserVocabulary.build(WORDS, min_count=1), max_characters=7)
    ids = {w: i for i, w in enumerate(vocabulary.words) if i > END}
    characters = {c: i for i, c in enumerate(vocabulary.characters) if i > END}
    batch = make_batch(TypeTable(vocabulary), sentences, end_boundary=end)
    assert batch.lengths_B.tolist() == [len(s) + 1 + end for s in sentences]
    words, spelling, counts = batch.table.features(batch.rows_U)
    for b, sentence in enumerate(sentences):
        expected = [(BEGIN, [BEGIN])]
        for token in map(normalise_text, sentence):
            spelled = [characters.get(c, UNKNOWN) for c in token[:7]] or [UNKNOWN]
            expected.append((ids.get(token.lower(), UNKNOWN), spelled))
        expected += [(END, [END])] * end
        for t in range(batch.types_BT.shape[1]):
            u = batch.types_BT[b, t]
            word, spelled = expected[t] if t < len(expected) else (PAD, [PAD])
            assert words[u] == word and spelling[u][: counts[u]].tolist() == spelled


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    vocabulary = ParserVocabulary.build(SENTENCES, min_count=1)
    module = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), CONFIG).double().eval()
    return module, TypeTable(vocabulary)


def encode(encoder, sentences):
    module, table = encoder
    return module(make_batch(table, sentences, end_boundary=True)).detach()


@pytest.mark.parametrize("max_types", [0, 10, 60_000])
def test_an_encoder_without_gradients_and_its_cache_give_what_it_gives_with_them(encoder, max_types):
    """Types met again come from the cache, new ones join it, also after many others and a new start."""
    module, table = encoder[0].float(), encoder[1]
    vectors = TypeVectors(table.vocabulary, module, max_types) if max_types else None
    mask = torch.arange(10) < torch.tensor([len(s) + 2 for s in SENTENCES])[:, None]
    for sentences in (SENTENCES[:2], SENTENCES):
        expected = encode(encoder, sentences)
        with torch.no_grad():
            states = module(*vectors.batch_with_vectors(sentences)) if vectors else encode(encoder, sentences)
        is_word = mask[: len(sentences)]
        torch.testing.assert_close(states[is_word], expected[is_word], rtol=0, atol=1e-6)
        (vectors or table).rows([f"w{i}" for i in range(2000)])


@pytest.mark.parametrize("count", [1, FEW_SEQUENCES])
def test_few_sentences_have_the_states_of_many_by_a_compiled_loop(encoder, count, monkeypatch):
    """Whose weights are copied once, and again when the vectors start anew."""
    module, table = encoder[0].float(), encoder[1]
    vectors = TypeVectors(table.vocabulary, module)
    many, lengths = vectors.states([*SENTENCES, *SENTENCES])
    monkeypatch.setattr(type(products_for(torch.zeros(1))), "addmm", None)
    states, positions = vectors.states(SENTENCES[:count])
    assert positions.tolist() == lengths[:count].tolist()
    torch.testing.assert_close(states, many[:count, : states.shape[1]], rtol=0, atol=1e-6)
    weights = vectors._recurrent_weights
    vectors.states(SENTENCES[:1])
    assert vectors._recurrent_weights is weights
    vectors.clear()
    assert vectors._recurrent_weights is not weights


def test_words_that_arrive_together_get_rows_of_their_own(encoder, monkeypatch):
    """Each thread waits between missing a word and adding it."""
    table, add = encoder[1], TypeTable._add

    def slowly(table, word):
        time.sleep(0.002)
        return add(table, word)

    monkeypatch.setattr(TypeTable, "_add", slowly)
    words = [[f"new{i}", f"newer{i}", "both"] for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(table.rows, words))
    distinct = dict(zip(np.concatenate(words).tolist(), np.concatenate(rows).tolist(), strict=True))
    assert len(set(distinct.values())) == len(distinct) == 17
    for some, where in zip(words, rows, strict=True):
        assert (table.rows(some) == where).all()
