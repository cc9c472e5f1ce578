"""Hand-made sentences and untrained models that tests of parsers share."""

from pathlib import Path
from typing import Any

import torch

from corpora.text import Sentence
from parsing.networks.config import EncoderSizes, ScorerSizes, SpanSizes
from parsing.networks.constituency import ConstituencyModel
from parsing.networks.dependency import DependencyModel
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


WORDS = [
    ["It", "rains", "."],
    ["Go"],
    ["The", "old", "man", "(", "a", "sailor", ")", "saw", "the", "boat", "."],
    ["Zwölf", "Boxkämpfer", "jagen", "Viktor", "quer", "über", "den", "Sylter", "Deich"],
    ["the", "the", "the", "the", "the"],
]
LABELS = ("", "ADVP", "NP", "PP", "S", "S::VP", "VP")
TAGS = (".", "DT", "NN", "VBZ")
HYPERPARAMETERS = {
    **dict.fromkeys(("use_chars_lstm", "use_encoder", "predict_tags", "force_root_constituent"), True),
    **dict.fromkeys(("char_lstm_input_dropout", "morpho_emb_dropout", "relu_dropout"), 0.2),
    **dict.fromkeys(("residual_dropout", "attention_dropout"), 0.2),
    **{"use_pretrained": False, "pretrained_model": "", "tag_loss_scale": 5.0, "encoder_max_len": 32},
    **{"num_layers": 2, "num_heads": 2, "d_model": 32, "d_char_emb": 8, "d_kv": 16, "d_ff": 24},
    **{"d_label_hidden": 20, "d_tag_hidden": 10},
}
"""benepar's, of a tiny model."""


def random_arcs(seed: int = 0, **encoder: int) -> DependencyModel:
    """A model with random weights: its scores have no ties, its greedy heads are rarely a tree."""
    torch.manual_seed(seed)
    vocabulary = ParserVocabulary.build((s.tokens for s in SENTENCES), min_count=1)
    relations = sorted({r for s in SENTENCES for r in s.relations or ()})
    sizes = {"word_dim": 6, "character_dim": 4, "character_hidden": 8, "hidden": 9, "layers": 2}
    sizes |= {"end_boundary": False, **encoder}
    model = DependencyModel(
        vocabulary, relations, EncoderSizes(**sizes), ScorerSizes(arc_dim=7, relation_dim=5)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    return model.eval()


def random_spans(seed: int = 0) -> ConstituencyModel:
    """A small model whose weights are far enough from zero for varied trees."""
    torch.manual_seed(seed)
    encoder = EncoderSizes(word_dim=12, character_dim=8, character_hidden=10, hidden=16, layers=2)
    vocabulary = ParserVocabulary.build(WORDS, min_count=1)
    config = SpanSizes(label_hidden=14, tag_hidden=9)
    model = ConstituencyModel(vocabulary, LABELS, TAGS, encoder, config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def benepar_model(seed: int = 0, **changes: object) -> Any:
    """A tiny random model of benepar's own."""
    from benepar.char_lstm import RetokenizerForCharLSTM  # here: it takes seconds
    from benepar.nkutil import HParams
    from benepar.parse_chart import ChartParser

    torch.manual_seed(seed)
    parser = ChartParser(
        tag_vocab={tag: i for i, tag in enumerate(TAGS)},
        label_vocab={label: i for i, label in enumerate(LABELS)},
        char_vocab=RetokenizerForCharLSTM.build_vocab(WORDS),
        hparams=HParams(**{**HYPERPARAMETERS, **changes}),
    )
    with torch.no_grad():
        for parameter in parser.f_label.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return parser.eval()


def save_as_benepar_does(parser: Any, path: Path) -> Path:
    """The single-file checkpoint of benepar's training."""
    torch.save({"config": parser.config, "state_dict": parser.state_dict()}, path)
    return path
