"""The command-line options that give the name of an encoder; nothing heavy is imported until it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from multiview.names.grammar import Name, parse_names, split_parts
from parsing.names import find_parser
from runtime.cli import Share, configuration
from runtime.errors import UserError

if TYPE_CHECKING:
    from multiview.model import MultiViewEncoder
    from multiview.names.opened import OpenedEncoder


@configuration
class ModelOptions:
    """The options by which a command opens a multi-view model."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """Model folder or builtin; of encode and search also any other name that senteval_runner.run takes."""
    dep_model: str = ""
    """Dependency parser the model was trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser the model was trained with, unless it is the builtin one."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    products: Literal["float32", "int8"] = "float32"
    """How a CPU multiplies by the weights of the model and of its parsers; int8 is faster and rounds more."""

    def parsed_names(self) -> list[Name]:
        """Parse the name of the encoder; nothing heavy is imported.

        Raises UserError if the name, or that of a parser, has no known form or names no file.
        """
        for kind, parser in self.parsers.items():
            find_parser(kind, parser)
        return parse_names(self.full_name)

    @property
    def full_name(self) -> str:
        """The name of the encoder."""
        return self.model

    @property
    def parsers(self) -> dict[str, str]:
        """The names of the parsers that the options give, by annotation."""
        names = {"dep": self.dep_model, "const": self.const_model}
        return {kind: name for kind, name in names.items() if name}

    def load(self) -> MultiViewEncoder:
        """Load the model. Raises UserError if the name is not that of a whole multi-view model."""
        name, *others = self.parsed_names()
        from multiview.names.constructors import encoder_of

        encoder = encoder_of(name, device=self.device, parsers=self.parsers, products=self.products)
        if others or not encoder.reads_trees:
            raise UserError(f"model {self.model!r}: reads no trees; give one of multiview.train")
        if name.views or name.kind or name.scale:
            raise UserError(f"model {self.model!r}: is read whole here; leave out ?views, ?kind and ?scale")
        model: MultiViewEncoder = encoder.loaded
        return model


@configuration
class VectorOptions(ModelOptions):
    """The options by which a command opens an encoder and chooses its vectors."""

    structure: Share | None = None
    """Share of who did what to whom in the cosine, 0 to 1; by default the model's."""
    views: str = ""
    """Only these views, separated by commas; all by default."""
    expand: str | None = None
    """Give a model the other words of a file of vectors as well."""

    @property
    def full_name(self) -> str:
        """The name of the encoder with these views, this share and these words."""
        options = f"?views={self.views}" if self.views else ""
        if self.expand:
            options += f"?expand={self.expand}"
        if self.structure is not None:
            options += f"?structure={abs(self.structure):f}"
        return "+".join(part + options for part in split_parts(self.model))

    def encoder(self, names: Sequence[Name]) -> OpenedEncoder:
        """Open the encoder of the names that :meth:`parsed_names` returned.

        If a name has ``?scale=CACHE``, ``encode`` returns features as well.
        """
        from multiview.names.opened import open_encoder

        names = [replace(name, kind="features") if name.scale_trees else name for name in names]
        return open_encoder(names, device=self.device, parsers=self.parsers, products=self.products)
