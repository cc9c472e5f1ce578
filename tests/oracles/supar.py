"""Our dependency models in supar's own ``BiaffineDependencyParser``, and its untouched ``predict``.

The oracle of the tests and the peer of the benchmark: the same weights have to give the same trees.

Known faults of supar 1.1.4 that are lived with here: ``predict(prob=True)`` changes a class attribute and
spoils later calls, so it is never used; a token with a tab or line break would shift its columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from supar import BiaffineDependencyParser
from supar.models import BiaffineDependencyModel
from supar.utils import Config
from supar.utils.common import BOS, PAD, UNK
from supar.utils.field import Field, RawField, SubwordField
from supar.utils.transform import CoNLL
from supar.utils.vocab import Vocab
from torch import Tensor

from parsing.dependency.model import DependencyModel
from parsing.libraries.supar import MLPS, recurrent_names
from parsing.networks.features import BEGIN, END, ParserVocabulary
from parsing.networks.features import PAD as PAD_ID
from parsing.networks.features import UNKNOWN as UNKNOWN_ID


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
    state |= {theirs: source[ours] for ours, theirs in recurrent_names(encoder.layers)}
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


def _without_end_row(table: Tensor) -> Tensor:
    return torch.cat([table[:END], table[END + 1 :]])


def _transform(vocabulary: ParserVocabulary, relations: Sequence[str]) -> CoNLL:
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
