"""Hand-made sentences and untrained models for the dependency tests."""

from __future__ import annotations

import torch

from corpora.text import Sentence
from parsing.dependency.model import DependencyModel
from parsing.networks.config import EncoderConfig, ScorerConfig
from parsing.networks.features import ParserVocabulary

ROWS = [
    "The/DET/2/det cat/NOUN/3/nsubj sat/VERB/0/root on/ADP/6/case the/DET/6/det mat/NOUN/3/obl "
    "./PUNCT/3/punct",
    "A/DET/2/det dog/NOUN/3/nsubj chased/VERB/0/root the/DET/5/det cat/NOUN/3/obj ./PUNCT/3/punct",
    "Cats/NOUN/2/nsubj sleep/VERB/0/root",
    "Who/PRON/2/nsubj sat/VERB/0/root ?/PUNCT/2/punct",
    "Sleep/VERB/0/root !/PUNCT/1/punct",
    "The/DET/3/det old/ADJ/3/amod dog/NOUN/4/nsubj sleeps/VERB/0/root on/ADP/7/case "
    "the/DET/7/det mat/NOUN/4/obl",
]


def sentence(row: str) -> Sentence:
    fields = [token.rsplit("/", 3) for token in row.split()]
    words, tags, heads, relations = zip(*fields, strict=True)
    return Sentence(words, tags=tags, heads=tuple(map(int, heads)), relations=relations)


SENTENCES = [sentence(row) for row in ROWS]
ODD = [
    ["Extraordinarily-long-word-of-many-characters", "sat", "naïve", "日本", "."],
    ["x"],
    ["THE", "the", "The", "unseen"] * 6,
    ["Cats", "sleep", "on", "mats", ";", "dogs", "sit", "."],
]


def as_lists(parses):
    """Parses that can be compared."""
    return [[getattr(p, name).tolist() for name in p.__dataclass_fields__] for p in parses]


def random_model(seed: int = 0, **encoder: int) -> DependencyModel:
    """A model with random weights: its scores have no ties, its greedy heads are rarely a tree."""
    torch.manual_seed(seed)
    vocabulary = ParserVocabulary.build((s.tokens for s in SENTENCES), min_count=1)
    relations = sorted({r for s in SENTENCES for r in s.relations or ()})
    sizes = {"word_dim": 6, "character_dim": 4, "character_hidden": 8, "hidden": 9, "layers": 2}
    sizes |= {"end_boundary": False, **encoder}
    model = DependencyModel(
        vocabulary, relations, EncoderConfig(**sizes), ScorerConfig(arc_dim=7, relation_dim=5)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    return model.eval()
