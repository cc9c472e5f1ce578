"""Our dependency models in supar's own ``BiaffineDependencyParser``, and its untouched ``predict``.

The oracle of the tests and the peer of the benchmark: the same weights have to give the same trees.

Known faults of supar 1.1.4 that are lived with here: ``predict(prob=True)`` changes a class attribute and
spoils later calls, so it is never used; a token with a tab or line break would shift its columns.
"""

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

from parsing.libraries.supar import MLPS, recurrent_names
from parsing.networks.dependency import DependencyModel
from parsing.networks.features import BEGIN, END, ParserVocabulary
from parsing.networks.features import PAD as PAD_ID
from parsing.networks.features import UNKNOWN as UNKNOWN_ID

END_WORD = "\x03"
"""The end boundary as a word of supar, which knows none; ETX, which no text has."""


class EndedModel(BiaffineDependencyModel):
    """Sentences end with :data:`END_WORD`, which is no head and hangs below the first word."""

    def forward(self, words: Tensor, feats: list[Tensor]) -> tuple[Tensor, Tensor]:
        arcs_BTT, relations_BTTR = super().forward(words, feats)
        rows, ends = torch.arange(len(words)), words.ne(self.args.pad_index).sum(1) - 1
        arcs_BTT[rows, :, ends] = -1e32
        arcs_BTT[rows, ends, :] = -1e32
        arcs_BTT[rows, ends, 1] = 0
        return arcs_BTT, relations_BTTR


def to_supar(model: DependencyModel) -> BiaffineDependencyParser:
    """Supar's own parser with our weights, for :func:`stock_predict`."""
    encoder, scorer, vocabulary = model.encoder.config, model.scorer, model.vocabulary
    ended = bool(model.end_positions)
    args = Config(
        device=str(model.arc_weight.device),
        encoder="lstm",
        feat=["char"],
        n_words=len(vocabulary.words) - 1 + ended,
        n_chars=len(vocabulary.characters) - 1 + ended,
        n_rels=len(model.relations),
        n_embed=encoder.word_dim,
        n_pretrained=encoder.word_dim,
        n_feat_embed=model.encoder.characters.output_dim,
        n_char_embed=encoder.character_dim,
        n_char_hidden=model.encoder.characters.output_dim,
        char_pad_index=PAD_ID,
        n_lstm_hidden=encoder.hidden,
        n_lstm_layers=encoder.layers,
        embed_dropout=0.0,
        encoder_dropout=0.0,
        n_arc_mlp=scorer.arc_dim,
        n_rel_mlp=scorer.relation_dim,
        mlp_dropout=0.0,
        scale=0,
        pad_index=PAD_ID,
        unk_index=UNKNOWN_ID,
        bos_index=BEGIN,
    )
    source = model.state_dict()
    state = {
        "word_embed.weight": _rows(source["encoder.words.weight"], ended),
        "char_embed.embed.weight": _rows(source["encoder.characters.embedding.weight"], ended),
        "arc_attn.weight": source["arc_weight"][None],
        "rel_attn.weight": source["relation_weight"],
    }
    state |= {theirs: source[ours] for ours, theirs in recurrent_names(encoder.layers)}
    for ours, theirs in MLPS.items():
        state |= {f"{theirs}.linear.{part}": source[f"{ours}.{part}"] for part in ("weight", "bias")}
    theirs = (EndedModel if ended else BiaffineDependencyModel)(**args)
    theirs.load_state_dict(state)
    return BiaffineDependencyParser(args, theirs.eval(), _transform(vocabulary, model.relations, ended))


def stock_predict(
    parser: BiaffineDependencyParser, sentences: Sequence[Sequence[str]]
) -> tuple[list[list[int]], list[list[str]]]:
    """Heads and relations from supar's untouched ``predict`` with its defaults (one root, a tree)."""
    end = [END_WORD] if isinstance(parser.model, EndedModel) else []
    dataset = parser.predict([[*tokens, *end] for tokens in sentences], verbose=False)
    arcs, names = ([row[: len(row) - len(end)] for row in rows] for rows in (dataset.arcs, dataset.rels))
    return arcs, names


def _rows(table: Tensor, ended: bool) -> Tensor:
    """Return the rows of words or characters that supar gets: that of the end only if sentences have one."""
    return table if ended else torch.cat([table[:END], table[END + 1 :]])


def _transform(vocabulary: ParserVocabulary, relations: Sequence[str], ended: bool) -> CoNLL:
    """Supar's description of the input: lower-cased words, characters, heads and relations."""
    words = Field("words", pad=PAD, unk=UNK, bos=BOS, lower=True)
    words.vocab = _vocab(vocabulary.words, ended)
    characters = SubwordField("chars", pad=PAD, unk=UNK, bos=BOS, fix_len=vocabulary.max_characters)
    characters.vocab = _vocab(vocabulary.characters, ended)
    arcs = Field("arcs", bos=BOS, use_vocab=False, fn=CoNLL.get_arcs)
    names = Field("rels", bos=BOS)
    names.vocab = Vocab({}, 1, list(relations), 0)
    return CoNLL(FORM=(words, RawField("texts"), characters, None, None), HEAD=arcs, DEPREL=names)


def _vocab(entries: Sequence[str], ended: bool) -> Vocab:
    end = [END_WORD] if ended else []
    return Vocab({}, 1, [*entries[:END], *end, *entries[END + 1 :]], UNKNOWN_ID)
