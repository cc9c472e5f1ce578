"""Convert supar's checkpoints to our dependency model (the reverse: :mod:`tests.oracles.supar`).

Our model is supar's biaffine model with weights stored under other names, so a converted checkpoint parses
in :class:`parsing.dependency.parser.BiaffineParser` exactly as supar does. Checkpoints are opened in
:mod:`parsing.convert`: supar's ``Parser.load`` unpickles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import supar
import torch
from supar import BiaffineDependencyParser, CRFDependencyParser
from supar.models import BiaffineDependencyModel
from supar.modules import TransformerEmbedding
from supar.utils.field import SubwordField
from supar.utils.fn import download
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer

from corpora.support.errors import UserError
from parsing.dependency.model import DependencyModel
from parsing.dependency.subword_model import SubwordDependencyModel, WordLayers
from parsing.networks.config import EncoderConfig, ScorerConfig
from parsing.networks.features import BEGIN, END, SPECIALS, ParserVocabulary
from parsing.networks.subwords import SubwordConfig, tokenizer_json

PARSERS = {kind.NAME: kind for kind in (BiaffineDependencyParser, CRFDependencyParser)}
"""supar's parsers whose network is the biaffine one; the second-order ones score siblings too."""
FEATURES = ("tag", "char", "bert")
"""Inputs besides the word that convert."""
LSTM_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
MLPS = {
    "arc_dependent": "arc_mlp_d",
    "arc_head": "arc_mlp_h",
    "relation_dependent": "rel_mlp_d",
    "relation_head": "rel_mlp_h",
}
"""Our linear layers and the corresponding MLPs of supar."""


def checkpoint_path(name_or_path: str) -> str:
    """A checkpoint file: the path itself, or supar's download of a published name (kept in its cache).

    Raises:
        UserError: neither a file nor a published name, or the download failed.
    """
    if os.path.exists(name_or_path):
        return name_or_path
    if name_or_path not in supar.NAME:
        known = ", ".join(n for n in sorted(supar.NAME) if "-dep-" in n)
        raise UserError(f"{name_or_path}: no such file and no model that supar publishes ({known})")
    address = supar.MODEL["github"][name_or_path]
    try:
        return str(download(address))
    except (RuntimeError, OSError):
        raise UserError(
            f"{name_or_path}: {address} cannot be downloaded; fetch and unpack it elsewhere and give the file"
        ) from None


def model_from_state(state: Mapping[str, Any], *, where: str) -> DependencyModel | SubwordDependencyModel:
    """Our model from the dictionary in a supar checkpoint.

    Args:
        state: what ``Parser.save`` wrote.
        where: the checkpoint's name, for messages.

    Raises:
        UserError: another kind of parser, inputs that cannot be given, or a transformer's files missing.
    """
    kind = PARSERS.get(str(state.get("name")))
    if kind is None:
        raise UserError(f"{where}: a {state.get('name')!r} model; only {' and '.join(PARSERS)} convert")
    args = state["args"]
    if args.encoder not in ("lstm", "bert"):
        raise UserError(f"{where}: encoder {args.encoder!r}; only 'lstm' and 'bert' convert")
    unusable = [f for f in args.feat if f not in FEATURES] if args.encoder == "lstm" else []
    if unusable:
        raise UserError(
            f"{where}: features {', '.join(unusable)}; only {', '.join(FEATURES)} convert "
            "(a sentence here has words and nothing else)"
        )
    with transformer_files(where):
        model = kind.MODEL(**args)
    model.load_pretrained(state["pretrained"])
    missing = model.load_state_dict(state["state_dict"], False).missing_keys
    # The pretrained vectors are kept apart; no parser reads the pooler.
    missing = [name for name in missing if name != "pretrained.weight" and ".pooler." not in name]
    if missing:
        raise UserError(f"{where}: {missing[0]} is missing; saved under another version of transformers?")
    return from_supar(kind(args, model, state["transform"]))


def remarks(state: Mapping[str, Any]) -> list[str]:
    """What users of a converted checkpoint should know, one sentence each."""
    found = []
    if state["name"] == CRFDependencyParser.NAME:
        found.append(
            "Trees are the highest-scoring ones, as by supar's predict(mbr=False, proj=False), "
            "not the projective ones of highest marginals that it prefers for this model."
        )
    if state["args"].encoder == "lstm" and "tag" in state["args"].feat:
        found.append(
            "The model was trained with part-of-speech tags; sentences here are words alone, so it reads "
            "every tag as missing, as supar's predict does without tags: expect worse trees than published."
        )
    return found


@contextmanager
def transformer_files(where: str) -> Iterator[None]:
    """Let supar load a transformer's tokenizer and configuration, but not its weights.

    For use while supar reads a checkpoint or builds its model.

    A checkpoint names its transformer and holds the trained weights. Tokenizer and configuration come
    from a folder or the network; the pretrained weights (gigabytes that would be overwritten) do not.

    Raises:
        UserError: the files are not found; names the transformer.
    """

    def reader(original: Any) -> Any:
        def from_pretrained(_: type, name: str, *arguments: Any, **options: Any) -> Any:
            try:
                return original(name, *arguments, **{**options, "trust_remote_code": False})
            except (OSError, ValueError) as error:
                raise UserError(
                    f"{where}: needs the tokenizer and configuration of the transformer {name!r}: no such "
                    f"folder, nor to be had from huggingface.co ({str(error).strip().splitlines()[0]})"
                ) from None

        return classmethod(from_pretrained)

    kinds: tuple[Any, ...] = (AutoTokenizer, AutoConfig, AutoModel)
    kept = {kind: vars(kind)["from_pretrained"] for kind in kinds}
    replaced = {kind: reader(kind.from_pretrained) for kind in kinds}
    replaced[AutoModel] = classmethod(
        lambda _, name, config: AutoModel.from_config(config, trust_remote_code=False)
    )
    try:
        for kind, method in replaced.items():
            kind.from_pretrained = method
        yield
    finally:
        for kind, method in kept.items():
            kind.from_pretrained = method


def from_supar(parser: BiaffineDependencyParser) -> DependencyModel | SubwordDependencyModel:
    """Our model with the weights of a supar parser.

    Raises:
        UserError: its transformer has a tokenizer that cannot be kept in a model folder.
    """
    # The model's own arguments: the parser's leave out what was left at its default.
    args, source = parser.model.args, parser.model.state_dict()
    relations = parser.REL.vocab.itos
    scorer = ScorerConfig(arc_dim=args.n_arc_mlp, relation_dim=args.n_rel_mlp, dropout=args.mlp_dropout)
    state = {
        "arc_weight": source["arc_attn.weight"][0] / args.n_arc_mlp**args.scale,
        "relation_weight": source["rel_attn.weight"] / args.n_rel_mlp**args.scale,
    }
    for ours, theirs in MLPS.items():
        for part in ("weight", "bias"):
            state[f"{ours}.{part}"] = source[f"{theirs}.linear.{part}"]
    model: DependencyModel | SubwordDependencyModel
    fields = parser.transform.FORM
    if args.encoder == "bert":
        parts, weights = _subwords(parser.model.encoder, fields[0])
        model = SubwordDependencyModel(*parts, relations, scorer)
        state |= weights
    else:
        vocabulary, encoder, weights = _word_layers(parser, source)
        state |= weights
        if "bert" in args.feat:
            parts, weights = _subwords(parser.model.bert_embed, fields[4])
            words = WordLayers(vocabulary=vocabulary, encoder=encoder)
            model = SubwordDependencyModel(*parts, relations, scorer, words)
            state |= weights
        else:
            model = DependencyModel(vocabulary, relations, encoder, scorer)
    model.load_state_dict(state)
    return model.eval()


def _word_layers(
    parser: BiaffineDependencyParser, source: Mapping[str, Tensor]
) -> tuple[ParserVocabulary, EncoderConfig, dict[str, Tensor]]:
    """Vocabulary, sizes and weights of the BiLSTM and its embeddings of words, tags and characters."""
    args = parser.model.args
    word_field, _, character_field = parser.transform.FORM[:3]
    words = _with_tags(_with_end_row(_word_table(parser.model)), parser)
    has_characters = "char" in args.feat
    vocabulary = ParserVocabulary(
        words=(*SPECIALS, *word_field.vocab.itos[END:]),
        characters=(*SPECIALS, *character_field.vocab.itos[END:]) if has_characters else SPECIALS,
        max_characters=character_field.fix_len if has_characters else 1,
    )
    encoder = EncoderConfig(
        word_dim=words.shape[1],
        character_dim=args.n_char_embed if has_characters else 1,
        character_hidden=args.n_char_hidden if has_characters else 2,
        hidden=args.n_lstm_hidden,
        layers=args.n_lstm_layers,
        embedding_dropout=args.embed_dropout,
        dropout=args.encoder_dropout,
    )
    state = {"encoder.words.weight": words}
    for ours, theirs in recurrent_names(encoder.layers):
        if theirs in source:
            state[ours] = source[theirs].clone()
    if has_characters:
        state["encoder.characters.embedding.weight"] = _with_end_row(source["char_embed.embed.weight"])
        _fold_projection(state, source, words.shape[1])
    else:
        _add_silent_characters(state, words.shape[1])
    return vocabulary, encoder, state


def _with_tags(words: Tensor, parser: BiaffineDependencyParser) -> Tensor:
    """Word vectors joined with a tag's vector: the root's at the root, elsewhere that of a missing tag."""
    if "tag" not in parser.model.args.feat:
        return words
    # supar's reader writes "_" for a missing value.
    root, missing = parser.transform.CPOS.transform([["_"]])[0].tolist()
    table = parser.model.tag_embed.weight.detach()
    tags = table[missing].repeat(len(words), 1)
    tags[BEGIN] = table[root]
    return torch.cat([words, tags], 1)


def _add_silent_characters(state: dict[str, Tensor], word_dim: int) -> None:
    """A character LSTM with zero weights, whose states are 0, for a model without characters."""
    state["encoder.characters.embedding.weight"] = torch.zeros(len(SPECIALS), 1)
    for direction in ("ahead", "back"):
        for parameter, shape in zip(LSTM_PARAMETERS, ((4, 1), (4, 1), (4,), (4,)), strict=True):
            state[f"encoder.characters.lstm.{direction}.{parameter}_l0"] = torch.zeros(shape)
        name = f"encoder.layers.0.{direction}.weight_ih_l0"
        weight = state[name]
        columns = weight.new_zeros(len(weight), 2)
        state[name] = torch.cat([weight[:, :word_dim], columns, weight[:, word_dim:]], 1)


def _subwords(
    embedding: TransformerEmbedding, field: SubwordField
) -> tuple[tuple[SubwordConfig, dict[str, object], dict[str, object]], dict[str, Tensor]]:
    """Configuration, backbone, tokenizer and weights of supar's transformer.

    Raises:
        UserError: see :func:`from_supar`.
    """
    tokenizer = embedding.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or tokenizer.padding_side != "right":
        raise UserError(
            f"{embedding.model}: a {type(tokenizer).__name__}; "
            "only fast tokenizers that pad at the right convert"
        )
    source = embedding.state_dict()
    state = {
        f"subwords.model.{name.removeprefix('bert.')}": value
        for name, value in source.items()
        if name.startswith("bert.") and ".pooler." not in name
    }
    state["subwords.layer_weights"] = source["scalar_mix.weights"]
    state["subwords.gamma"] = source["scalar_mix.gamma"]
    projection = source.get("projection.weight")
    if projection is not None:
        state["subwords.projection.weight"] = projection
    config = SubwordConfig(
        pad=embedding.pad_index,
        unknown=field.unk_index,
        begin=field.bos_index,
        layers=embedding.n_layers,
        pooling=embedding.pooling,
        max_pieces=field.fix_len,
        stride=embedding.stride,
        prefix=field.fn("") if field.fn is not None else "",
        projection=0 if projection is None else len(projection),
    )
    settings = embedding.bert.config
    backbone = {**settings.to_dict(), "model_type": settings.model_type}
    for key in ("_name_or_path", "architectures", "transformers_version", "torch_dtype", "dtype"):
        backbone.pop(key, None)
    return (config, backbone, tokenizer_json(backend.to_str())), state


def recurrent_names(layers: int) -> list[tuple[str, str]]:
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
    trained: Tensor = model.word_embed.weight.detach()
    if not hasattr(model, "pretrained"):
        return trained
    fixed: Tensor = model.pretrained.weight.detach()
    # Words that only the pretrained vectors know are unknown to the trained table.
    index = torch.arange(len(fixed))
    trained = trained[index.masked_fill(index >= len(trained), model.args.unk_index)]
    if model.args.n_embed == model.args.n_pretrained:
        return trained + fixed
    return torch.cat([trained, model.embed_proj(fixed).detach()], 1)


def _with_end_row(table: Tensor) -> Tensor:
    """Add the row of the end boundary, which supar lacks; it is zero and never looked up."""
    return torch.cat([table[:END], table.new_zeros(1, table.shape[1]), table[END:]])


def _fold_projection(state: dict[str, Tensor], source: Mapping[str, Tensor], word_dim: int) -> None:
    """W_ih [w; P c + b; e] = [W_w, W_c P, W_e] [w; c; e] + W_c b: the projection is folded into W_ih."""
    if "char_embed.projection.weight" not in source:
        return
    p, b = source["char_embed.projection.weight"], source["char_embed.projection.bias"]
    for direction in ("ahead", "back"):
        name = f"encoder.layers.0.{direction}"
        word, character, rest = state[f"{name}.weight_ih_l0"].tensor_split((word_dim, word_dim + len(p)), 1)
        state[f"{name}.bias_ih_l0"] = state[f"{name}.bias_ih_l0"] + character @ b
        state[f"{name}.weight_ih_l0"] = torch.cat([word, character @ p, rest], 1)
