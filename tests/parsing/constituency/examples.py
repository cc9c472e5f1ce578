"""Small constituency models and sentences that several tests share."""

from __future__ import annotations

from pathlib import Path

import torch
from benepar.char_lstm import RetokenizerForCharLSTM
from benepar.nkutil import HParams
from benepar.parse_chart import ChartParser
from parsing.constituency.model import ConstituencyModel

from parsing.networks.config import EncoderConfig, SpanConfig
from parsing.networks.features import ParserVocabulary

SENTENCES = [
    ["It", "rains", "."],
    ["Go"],
    ["The", "old", "man", "(", "a", "sailor", ")", "saw", "the", "boat", "."],
    ["Zwölf", "Boxkämpfer", "jagen", "Viktor", "quer", "über", "den", "Sylter", "Deich"],
    ["the", "the", "the", "the", "the"],
]
LABELS = ("", "ADVP", "NP", "PP", "S", "S::VP", "VP")
TAGS = (".", "DT", "NN", "VBZ")


def random_model(seed: int = 0, *, force_root: bool = True) -> ConstituencyModel:
    """A small model whose weights are far enough from zero for varied trees."""
    torch.manual_seed(seed)
    encoder = EncoderConfig(word_dim=12, character_dim=8, character_hidden=10, hidden=16, layers=2)
    vocabulary = ParserVocabulary.build(SENTENCES, min_count=1)
    config = SpanConfig(label_hidden=14, tag_hidden=9, force_root=force_root)
    model = ConstituencyModel(vocabulary, LABELS, TAGS, encoder, config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def hyperparameters(**changes: object) -> HParams:
    """benepar's hyperparameters of a tiny model."""
    values = {
        "use_chars_lstm": True,
        "use_pretrained": False,
        "pretrained_model": "",
        "use_encoder": True,
        "d_model": 32,
        "d_char_emb": 8,
        "char_lstm_input_dropout": 0.2,
        "morpho_emb_dropout": 0.2,
        "encoder_max_len": 32,
        "num_layers": 2,
        "num_heads": 2,
        "d_kv": 16,
        "d_ff": 24,
        "relu_dropout": 0.1,
        "residual_dropout": 0.2,
        "attention_dropout": 0.2,
        "d_label_hidden": 20,
        "d_tag_hidden": 10,
        "predict_tags": True,
        "tag_loss_scale": 5.0,
        "force_root_constituent": True,
    }
    return HParams(**{**values, **changes})


def benepar_model(seed: int = 0, **changes: object) -> ChartParser:
    """A tiny random model of benepar's own."""
    torch.manual_seed(seed)
    parser = ChartParser(
        tag_vocab={tag: i for i, tag in enumerate(TAGS)},
        label_vocab={label: i for i, label in enumerate(LABELS)},
        char_vocab=RetokenizerForCharLSTM.build_vocab(SENTENCES),
        hparams=hyperparameters(**changes),
    )
    with torch.no_grad():
        for parameter in parser.f_label.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return parser.eval()


def save_as_benepar_does(parser: ChartParser, path: Path) -> Path:
    """The single-file checkpoint of benepar's training."""
    torch.save({"config": parser.config, "state_dict": parser.state_dict()}, path)
    return path
