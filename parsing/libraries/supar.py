"""Converts supar's biaffine parsers to :class:`parsing.networks.dependency.DependencyModel`.

A converted checkpoint parses exactly as in supar, because the model is the same but for the names of the
weights and two parts. Word vectors that supar adds or projects become one table. The projection P, b of the
characters' vector c becomes part of the input weights of the first layer:
W_ih [w; P c + b] = [W_w, W_c P] [w; c] + W_c b.

Checkpoints are opened in :mod:`parsing.convert`, because supar's ``Parser.load`` unpickles without asking.
:mod:`tests.oracles.supar` does the reverse conversion.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from parsing.networks.config import EncoderSizes, ScorerSizes
from parsing.networks.dependency import DependencyModel
from parsing.networks.features import END, SPECIALS, ParserVocabulary
from runtime.errors import UserError, extra
from runtime.files import check_regular

with extra("parsers", "supar"):
    import supar
    from supar import BiaffineDependencyParser
    from supar.utils.fn import download

MLPS = {
    "arc_dependent": "arc_mlp_d",
    "arc_head": "arc_mlp_h",
    "relation_dependent": "rel_mlp_d",
    "relation_head": "rel_mlp_h",
}
"""Our linear layers and the corresponding MLPs of supar."""


def checkpoint_path(name: str) -> Path:
    """Return a checkpoint file, or the one that supar downloads for a name. Raises UserError without one."""
    if os.path.exists(name):
        check_regular(Path(name))
        return Path(name)
    if name not in supar.NAME:
        names = ", ".join(n for n in sorted(supar.NAME) if "biaffine-dep-" in n)
        raise UserError(f"{name}: no such file and no model that supar publishes ({names})")
    address = supar.MODEL["github"][name]
    try:
        return Path(download(address))
    except (RuntimeError, OSError):
        remedy = "fetch and unpack it elsewhere and give the file"
        raise UserError(f"{name}: {address} cannot be downloaded; {remedy}") from None


def from_state(state: Any, *, where: str) -> DependencyModel:
    """Return the model of a state that supar's ``Parser.save`` wrote.

    Raises UserError if its inputs are not words and characters; the message begins with ``where``.
    """
    name = state.get("name") if isinstance(state, dict) else None
    if name != BiaffineDependencyParser.NAME:
        raise UserError(f"{where}: a {name!r} model; only {BiaffineDependencyParser.NAME} converts")
    args, source = state["args"], state["state_dict"]
    if args.encoder != "lstm" or list(args.feat) != ["char"]:
        raise UserError(
            f"{where}: encoder {args.encoder!r}, features {', '.join(args.feat)}; only 'lstm' with "
            "char converts (a sentence here has words and nothing else)"
        )
    form, _, letters = state["transform"].FORM[:3]
    vocabulary = ParserVocabulary(
        words=(*SPECIALS, *form.vocab.itos[END:]),
        characters=(*SPECIALS, *letters.vocab.itos[END:]),
        max_characters=letters.fix_len,
    )
    words = _with_end_row(_word_table(source, state["pretrained"], args))
    encoder = EncoderSizes(
        word_dim=words.shape[1],
        character_dim=args.n_char_embed,
        character_hidden=args.n_char_hidden,
        hidden=args.n_lstm_hidden,
        layers=args.n_lstm_layers,
        end_boundary=False,
    )
    scorer = ScorerSizes(arc_dim=args.n_arc_mlp, relation_dim=args.n_rel_mlp)
    model = DependencyModel(vocabulary, state["transform"].DEPREL.vocab.itos, encoder, scorer)
    model.load_state_dict(_weights(source, words, args))
    return model.eval()


def _weights(source: Mapping[str, Tensor], words: Tensor, args: Any) -> dict[str, Tensor]:
    """Return supar's weights by the names of :class:`DependencyModel`, with one table of ``words``."""
    weights = {ours: source[theirs] for ours, theirs in recurrent_names(args.n_lstm_layers)}
    weights |= {
        "encoder.words.weight": words,
        "encoder.characters.embedding.weight": _with_end_row(source["char_embed.embed.weight"]),
        "arc_weight": source["arc_attn.weight"][0] / args.n_arc_mlp**args.scale,
        "relation_weight": source["rel_attn.weight"] / args.n_rel_mlp**args.scale,
    }
    for ours, theirs in MLPS.items():
        weights |= {f"{ours}.{part}": source[f"{theirs}.linear.{part}"] for part in ("weight", "bias")}
    projection = source.get("char_embed.projection.weight")
    if projection is not None:
        bias = source["char_embed.projection.bias"]
        for name in ("encoder.layers.0.ahead", "encoder.layers.0.back"):
            word, character = weights[f"{name}.weight_ih_l0"].split((words.shape[1], len(projection)), 1)
            weights[f"{name}.bias_ih_l0"] = weights[f"{name}.bias_ih_l0"] + character @ bias
            weights[f"{name}.weight_ih_l0"] = torch.cat([word, character @ projection], 1)
    return weights


def recurrent_names(layers: int) -> list[tuple[str, str]]:
    """Return the name of each LSTM weight in :class:`DependencyModel`, and its name in supar."""
    names = []
    for parameter in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        for ours, theirs, suffix in (("ahead", "f_cells", ""), ("back", "b_cells", "_reverse")):
            names += [
                (f"encoder.layers.{i}.{ours}.{parameter}_l0", f"encoder.{theirs}.{i}.{parameter}")
                for i in range(layers)
            ]
            names.append(
                (f"encoder.characters.lstm.{ours}.{parameter}_l0", f"char_embed.lstm.{parameter}_l0{suffix}")
            )
    return names


def _word_table(source: Mapping[str, Tensor], pretrained_vectors: Tensor | None, args: Any) -> Tensor:
    """Return one table of trained and pretrained word vectors: their sum, or both concatenated."""
    vectors = source["word_embed.weight"]
    if pretrained_vectors is None:
        return vectors
    # Words that only the pretrained vectors know are unknown to the trained table.
    index = torch.arange(len(pretrained_vectors))
    vectors = vectors[index.masked_fill(index >= len(vectors), args.unk_index)]
    if args.n_embed == args.n_pretrained:
        return vectors + pretrained_vectors
    projection = pretrained_vectors @ source["embed_proj.weight"].T + source["embed_proj.bias"]
    return torch.cat([vectors, projection], 1)


def _with_end_row(table: Tensor) -> Tensor:
    """Return a table with a row of zeros for the end boundary, which supar does not have; it is not used."""
    return torch.cat([table[:END], table.new_zeros(1, table.shape[1]), table[END:]])
