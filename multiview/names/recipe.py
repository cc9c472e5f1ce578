"""Says what the encoder of a name is and what decides its vectors, before anything of it is loaded; loads it.

An encoder gives two kinds of vectors: ``encode`` what one compares with, ``features`` what classifiers get.
Of most encoders they are the same. Models with a read-out, a share of structure or a scale of their own have
*features*, their numbers at one scale, and compare by their meaning, or by their views if no read-out was
fitted. A name with ``?readout=`` gives one of them to all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import Any, Literal

from corpora.characters import VERSION
from multiview.encoders.batch_encoder import view_positions
from multiview.encoders.meaning import BLOCK_SENTENCES, FEATURE_LENGTH, SAMPLE_SENTENCES
from multiview.folder.files import model_folder, model_record
from multiview.folder.reading import TextSource
from multiview.model import MultiViewEncoder
from multiview.names.grammar import MANIFEST, PREFIXES, RAW, Name, parse_name
from multiview.structure.binding import WIDTH
from multiview.structure.joining import check_share
from parsing.names import absolute_name
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest, sha256_file
from runtime.process import cached_property
from runtime.products import ProductKind, products_in

Method = Literal["encode", "features"]
"""The kind of vectors that is meant, by the method that gives it."""
TreesOf = Callable[[MultiViewEncoder], TreeCache | None]
"""Returns the stored trees of a loaded model's sentences."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderRecipe:
    """How the encoder of a name is loaded, which kinds of vectors it has, and what decides them."""

    name: Name
    kind: str
    """What it is: ``multiview``, ``words``, ``bag`` and so on; ``object`` has no name."""
    load: Callable[[str | None], Any] = field(repr=False)
    """Loads on a device: a :class:`MultiViewEncoder`, another object with ``encode(sentences)``, or only
    that function."""
    identity: Sequence[object] = ()
    """JSON values that decide the vectors; :func:`recipe_of` adds the name's prefix and options."""
    reads: Literal["trees", "tokens", "text"] = "tokens"
    """What it encodes: sentences with trees, as a :class:`MultiViewEncoder`, token lists, or strings."""
    has_features: bool = False
    """Whether it gives classifiers other vectors than cosines."""
    has_meaning: bool = False
    """Whether cosines are of a meaning, not of raw numbers."""
    share: float = 0.0
    """λ, how much structure the vectors for cosines have where the name does not say."""

    @property
    def has_structure(self) -> bool:
        """Whether it knows who did what to whom; all others get that of ``builtin``, random views too."""
        return self.reads == "trees" and self.kind != "random"

    @property
    def has_trained_words(self) -> bool:
        """Whether it is a model that has word vectors of its own."""
        return self.kind == "multiview" and model_record(model_folder(self.name.base)).words.mode == "trained"

    def vector_kind(self, method: Method) -> str | None:
        """Return which of a model's vectors a method gives; None is the model's default."""
        name = self.name
        has_features = not name.readout and (self.has_features or name.scale_trees)
        kind = "features" if method == "features" and has_features else name.readout
        return "raw" if kind == "features" and name.scale == RAW else kind

    def label_of(self, method: Method) -> str:
        """Return which of a model's vectors these are (``meaning, structure 0.15``), where it has several."""
        name, kind = self.name, self.vector_kind(method)
        if not (self.has_features or name.readout or name.scale_trees):
            return ""
        share = name.structure
        if share is None:
            share = 0.0 if kind in ("features", "raw") else self.share
        label = kind or ("meaning" if self.has_meaning else "raw")
        return f"{label}, structure {share:g}" if share else label

    def key(self, method: Method = "encode", *more: object) -> str:
        """Return a hex digest of everything that decides the vectors, of ``more`` values too."""
        return json_digest([self.identity, self.vector_kind(method), FEATURE_LENGTH, *more], 16)


def recipe_of(name: Name | str, seed: int = 0) -> EncoderRecipe:
    """Return what a name means; ``seed`` is that of random encoders."""
    name = parse_name(name) if isinstance(name, str) else name
    recipe: EncoderRecipe = resolve_name(PREFIXES[name.prefix].constructor)(name, seed)
    options: dict[str, object] = {"dim": name.dim, "scale": name.scale, "characters": VERSION}
    if name.option_file is not None:
        options["file"] = sha256_file(name.option_file)
    if name.scale_trees is not None:
        options["scale"] = [sha256_file(name.scale_trees / MANIFEST), SAMPLE_SENTENCES, BLOCK_SENTENCES]
    if name.structure is not None:
        options["structure"] = [check_share(name.structure), WIDTH]
    identity = [name.prefix, *recipe.identity, options]
    if name.views:
        identity.append(view_positions(model_record(model_folder(name.base)).views, name.views))
    return replace(recipe, identity=identity)


@dataclass(frozen=True, eq=False, kw_only=True)
class Loader:
    """The encoder of a recipe and the trees of its sentences, each loaded when it is first read."""

    recipe: EncoderRecipe
    device: str | None = None
    """The device; None takes a GPU if there is one."""
    trees: TreesOf | None = None
    """Finds the stored trees of a multi-view encoder's sentences."""
    parsers: Mapping[str, str] = field(default_factory=dict)
    """Parsers of the other sentences, by annotation, where they are not the builtin ones."""
    products: ProductKind | None = None
    """How a CPU multiplies by the weights; None is as :meth:`MultiViewEncoder.load` does."""

    def __post_init__(self) -> None:
        """Keep the parsers' names for any working folder."""
        parsers = {kind: absolute_name(parser) for kind, parser in self.parsers.items()}
        object.__setattr__(self, "parsers", parsers)

    def key(self, method: Method) -> str:
        """Return a hex digest of everything that decides the vectors, products and parsers too."""
        products = ["int8"] if self.products == "int8" else []
        parsers = [dict(self.parsers)] if self.parsers else []
        return self.recipe.key(method, *products, *parsers)

    @property
    def loaded(self) -> Any:
        """The loaded encoder; reading it raises the UserError of loading, which is tried once."""
        if isinstance(self._loaded_or_error, UserError):
            raise self._loaded_or_error
        return self._loaded_or_error

    @cached_property
    def _loaded_or_error(self) -> Any:
        try:
            return self._load()
        except UserError as error:
            return error  # which took over a minute if a name was looked up without a network

    def _load(self) -> Any:
        with products_in(self.products):
            encoder = self.recipe.load(self.device)
        if isinstance(encoder, MultiViewEncoder):
            encoder.reader.specs |= self.parsers
            if self.recipe.name.expand is not None:
                encoder.expand_vocabulary(self.recipe.name.expand)
            if self.recipe.has_structure:
                encoder = encoder.with_options(structure=self.recipe.name.structure)
        return encoder

    @cached_property
    def stored_trees(self) -> TreeCache | None:
        """The stored trees of the sentences of an encoder that reads trees, where there are some."""
        if self.trees is None or self.recipe.reads != "trees":
            return None
        return self.trees(self.loaded)

    @cached_property
    def structure_source(self) -> TextSource:
        """The parsers and words that give the structure of vectors that have none."""
        return TextSource.of(self.loaded if self.recipe.has_structure else None)
