"""The one file that imports supar: its checkpoints as our model, our weights in its classes.

Our dependency model is supar's biaffine model with weights stored under other names, so both
directions are exact: a converted checkpoint parses in :class:`parsing.dep_parser.BiaffineParser`,
and any of our model folders runs in supar's own ``BiaffineDependencyParser``, whose untouched
``predict`` is the oracle of the tests and the peer of the benchmark.

Known faults of supar 1.1.4 that are lived with here: ``Parser.load`` unpickles (see
:mod:`parsing.convert`); ``predict(prob=True)`` changes a class attribute and spoils later calls, so
it is never used; a token with a tab or line break would shift its columns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import supar
import torch
from supar import BiaffineDependencyParser
from supar.models import BiaffineDependencyModel
from supar.utils import Config
from supar.utils.common import BOS, PAD, UNK
from supar.utils.field import Field, RawField, SubwordField
from supar.utils.fn import download
from supar.utils.transform import CoNLL
from supar.utils.vocab import Vocab
from torch import Tensor

from corpora.support.errors import UserError
from parsing.configs import EncoderConfig, ScorerConfig
from parsing.dep_model import DependencyModel
from parsing.features import BEGIN, END, SPECIALS, Vocabulary
from parsing.features import PAD as PAD_ID
from parsing.features import UNKNOWN as UNKNOWN_ID

LSTM_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
MLPS = {
    "arc_dependent": "arc_mlp_d",
    "arc_head": "arc_mlp_h",
    "relation_dependent": "rel_mlp_d",
    "relation_head": "rel_mlp_h",
}
"""Our linear layers and supar's MLPs of the same content."""


def published_names() -> list[str]:
    """Names of the models that supar's authors publish."""
    return sorted(supar.NAME)


def checkpoint_path(name_or_path: str) -> str:
    """A checkpoint file: the path itself, or supar's download of a published name (kept in its cache).

    Raises:
        UserError: neither a file nor a published name, or the download failed.
    """
    if os.path.exists(name_or_path):
        return name_or_path
    if name_or_path not in supar.NAME:
        known = ", ".join(n for n in published_names() if "-dep-" in n)
        raise UserError(f"{name_or_path}: no such file and no model that supar publishes ({known})")
    try:
        return str(download(supar.MODEL["github"][name_or_path]))
    except (RuntimeError, OSError) as error:
        raise UserError(f"{name_or_path}: download failed ({error}); give the file instead") from None


def model_from_state(state: Mapping[str, Any], *, where: str) -> DependencyModel:
    """Our model from the dictionary in a supar checkpoint.

    Args:
        state: what ``Parser.save`` wrote.
        where: the checkpoint's name, for messages.

    Raises:
        UserError: not a biaffine dependency parser over words and characters.
    """
    if state.get("name") != BiaffineDependencyParser.NAME:
        raise UserError(
            f"{where}: a {state.get('name')!r} model; only {BiaffineDependencyParser.NAME!r} converts"
        )
    args = state["args"]
    if args.encoder != "lstm" or list(args.feat) != ["char"]:
        raise UserError(
            f"{where}: encoder {args.encoder!r} with features {list(args.feat)}; "
            "only 'lstm' with ['char'] converts (a sentence here has words and nothing else)"
        )
    model = BiaffineDependencyModel(**args)
    model.load_pretrained(state["pretrained"])
    model.load_state_dict(state["state_dict"], False)
    return from_supar(BiaffineDependencyParser(args, model, state["transform"]))


def from_supar(parser: BiaffineDependencyParser) -> DependencyModel:
    """Our model with the weights of a supar parser (LSTM encoder over words and characters)."""
    # The model's own arguments: the parser's leave out what was left at its default.
    args, source = parser.model.args, parser.model.state_dict()
    word_field, _, character_field = parser.transform.FORM[:3]
    words = _word_table(parser.model)
    vocabulary = Vocabulary(
        words=(*SPECIALS, *word_field.vocab.itos[END:]),
        characters=(*SPECIALS, *character_field.vocab.itos[END:]),
        max_characters=character_field.fix_len,
    )
    encoder = EncoderConfig(
        word_dim=words.shape[1],
        character_dim=args.n_char_embed,
        character_hidden=args.n_char_hidden,
        hidden=args.n_lstm_hidden,
        layers=args.n_lstm_layers,
        embedding_dropout=args.embed_dropout,
        dropout=args.encoder_dropout,
    )
    scorer = ScorerConfig(arc_dim=args.n_arc_mlp, relation_dim=args.n_rel_mlp, dropout=args.mlp_dropout)
    model = DependencyModel(vocabulary, parser.REL.vocab.itos, encoder, scorer)
    state = {
        "encoder.words.weight": _with_end_row(words),
        "encoder.characters.embedding.weight": _with_end_row(source["char_embed.embed.weight"]),
        "arc_weight": source["arc_attn.weight"][0] / args.n_arc_mlp**args.scale,
        "relation_weight": source["rel_attn.weight"] / args.n_rel_mlp**args.scale,
    }
    for ours, theirs in _recurrent_names(encoder.layers):
        state[ours] = source[theirs].clone()
    for ours, theirs in MLPS.items():
        for part in ("weight", "bias"):
            state[f"{ours}.{part}"] = source[f"{theirs}.linear.{part}"]
    _fold_projection(state, source, words.shape[1])
    model.load_state_dict(state)
    return model.eval()


def to_supar(model: DependencyModel) -> BiaffineDependencyParser:
    """Supar's own parser with our weights; its stock ``predict`` and ``evaluate`` work."""
    encoder, scorer, vocabulary = model.encoder.config, model.scorer, model.vocabulary
    args = Config(
        device=str(model.arc_weight.device),
        encoder="lstm",
        feat=["char"],
        n_words=len(vocabulary.words) - 1,
        n_chars=len(vocabulary.characters) - 1,
        n_rels=len(model.relations),
        n_embed=encoder.word_dim,
        n_pretrained=encoder.word_dim,
        n_feat_embed=model.encoder.characters.output_dim,
        n_char_embed=encoder.character_dim,
        n_char_hidden=model.encoder.characters.output_dim,
        char_pad_index=PAD_ID,
        n_lstm_hidden=encoder.hidden,
        n_lstm_layers=encoder.layers,
        embed_dropout=encoder.embedding_dropout,
        encoder_dropout=encoder.dropout,
        n_arc_mlp=scorer.arc_dim,
        n_rel_mlp=scorer.relation_dim,
        mlp_dropout=scorer.dropout,
        scale=0,
        pad_index=PAD_ID,
        unk_index=UNKNOWN_ID,
        bos_index=BEGIN,
    )
    source = model.state_dict()
    state = {
        "word_embed.weight": _without_end_row(source["encoder.words.weight"]),
        "char_embed.embed.weight": _without_end_row(source["encoder.characters.embedding.weight"]),
        "arc_attn.weight": source["arc_weight"][None],
        "rel_attn.weight": source["relation_weight"],
    }
    state |= {theirs: source[ours] for ours, theirs in _recurrent_names(encoder.layers)}
    for ours, theirs in MLPS.items():
        state |= {f"{theirs}.linear.{part}": source[f"{ours}.{part}"] for part in ("weight", "bias")}
    theirs = BiaffineDependencyModel(**args)
    theirs.load_state_dict(state)
    return BiaffineDependencyParser(args, theirs.eval(), _transform(vocabulary, model.relations))


def stock_predict(
    parser: BiaffineDependencyParser, sentences: Sequence[Sequence[str]]
) -> tuple[list[list[int]], list[list[str]]]:
    """Heads and relations from supar's untouched ``predict`` with its defaults (one root, a tree)."""
    dataset = parser.predict([list(tokens) for tokens in sentences], verbose=False)
    return dataset.arcs, dataset.rels


def _recurrent_names(layers: int) -> list[tuple[str, str]]:
    """Our and supar's names of every LSTM weight."""
    names = []
    for parameter in LSTM_PARAMETERS:
        for ours, theirs in (("ahead", "f_cells"), ("back", "b_cells")):
            names += [
                (f"encoder.layers.{i}.{ours}.{parameter}_l0", f"encoder.{theirs}.{i}.{parameter}")
                for i in range(layers)
            ]
        names.append((f"encoder.characters.lstm.ahead.{parameter}_l0", f"char_embed.lstm.{parameter}_l0"))
        names.append(
            (f"encoder.characters.lstm.back.{parameter}_l0", f"char_embed.lstm.{parameter}_l0_reverse")
        )
    return names


def _word_table(model: BiaffineDependencyModel) -> Tensor:
    """Trained and pretrained word vectors as the one table that their sum or concatenation is."""
    trained = model.word_embed.weight.detach()
    if not hasattr(model, "pretrained"):
        return trained
    fixed = model.pretrained.weight.detach()
    # Words that only the pretrained vectors know are unknown to the trained table.
    index = torch.arange(len(fixed))
    trained = trained[index.masked_fill(index >= len(trained), model.args.unk_index)]
    if model.args.n_embed == model.args.n_pretrained:
        return trained + fixed
    return torch.cat([trained, model.embed_proj(fixed).detach()], 1)


def _with_end_row(table: Tensor) -> Tensor:
    """Supar has no end boundary: its row, never looked up, is zero."""
    return torch.cat([table[:END], table.new_zeros(1, table.shape[1]), table[END:]])


def _without_end_row(table: Tensor) -> Tensor:
    return torch.cat([table[:END], table[END + 1 :]])


def _fold_projection(state: dict[str, Tensor], source: Mapping[str, Tensor], word_dim: int) -> None:
    """W_ih [w; P c + b] = [W_w, W_c P] [w; c] + W_c b: no projection is left after the characters."""
    if "char_embed.projection.weight" not in source:
        return
    p, b = source["char_embed.projection.weight"], source["char_embed.projection.bias"]
    for direction in ("ahead", "back"):
        name = f"encoder.layers.0.{direction}"
        weight = state[f"{name}.weight_ih_l0"]
        state[f"{name}.bias_ih_l0"] = state[f"{name}.bias_ih_l0"] + weight[:, word_dim:] @ b
        state[f"{name}.weight_ih_l0"] = torch.cat([weight[:, :word_dim], weight[:, word_dim:] @ p], 1)


def _transform(vocabulary: Vocabulary, relations: Sequence[str]) -> CoNLL:
    """Supar's description of the input: lower-cased words, characters, heads and relations."""
    words = Field("words", pad=PAD, unk=UNK, bos=BOS, lower=True)
    words.vocab = _vocab(vocabulary.words)
    characters = SubwordField("chars", pad=PAD, unk=UNK, bos=BOS, fix_len=vocabulary.max_characters)
    characters.vocab = _vocab(vocabulary.characters)
    arcs = Field("arcs", bos=BOS, use_vocab=False, fn=CoNLL.get_arcs)
    names = Field("rels", bos=BOS)
    names.vocab = Vocab({}, 1, list(relations), 0)
    return CoNLL(FORM=(words, RawField("texts"), characters, None, None), HEAD=arcs, DEPREL=names)


def _vocab(entries: Sequence[str]) -> Vocab:
    return Vocab({}, 1, [*entries[:END], *entries[END + 1 :]], UNKNOWN_ID)
