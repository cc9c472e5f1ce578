"""The options of ``python -m multiview.serve``; imports nothing heavy."""

from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Le, MinLen
from tyro.conf import Positional, arg

from runtime.cli import Count, Positive, configuration
from runtime.errors import UserError
from runtime.files import check_regular

Port = Annotated[Count, Le(65_535), arg(metavar="PORT")]


@configuration
class ServeConfig:
    """Options of ``python -m multiview.serve``."""

    model: Annotated[Positional[str], arg(metavar="MODEL")] = "builtin"
    """Model folder, or builtin."""
    index: Path | None = None
    """Text to search by /search, one sentence per line, or a tree cache; its vectors are kept."""
    judge: str = "pairs"
    """The judge of /judge, /rerank and the searches that ask for it: pairs; pairs-with-mrpc, for research
    only; or the JSON file of a judge of your own."""
    host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """Address to listen at; 0.0.0.0 is every address of this machine."""
    port: Port = 8000
    """Port to listen at."""
    workers: Count = 1
    """Processes that parse and encode, each with a model of its own and one thread."""
    max_batch: Count = 64
    """Most sentences of waiting requests that are encoded together."""
    max_inputs: Count = 2048
    """Most sentences, documents or pairs of a request, and sentences of a text to search."""
    max_length: Count = 512
    """Most words of a sentence; a longer one is refused."""
    max_bytes: Count = 8_000_000
    """Most bytes of a request."""
    queue: Count = 256
    """Most requests that wait; beyond it the answer is 429."""
    timeout: Positive = 30.0
    """Seconds after which a request that waits is given up."""
    token_file: Path | None = None
    """File with the token that every request but /, /health and /live has to bring; without it none is asked
    for."""
    log: Literal["text", "json"] = "text"
    """Form of the lines of the log."""

    def token(self) -> str:
        """Return the token that requests must have, "" if none. Raises UserError if the file has no token."""
        if self.token_file is None:
            return ""
        check_regular(self.token_file)
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--token-file {self.token_file}: cannot be read ({error})") from None
        if not token or not token.isascii() or any(map(str.isspace, token)):
            raise UserError(f"--token-file {self.token_file}: must hold one token of ASCII characters")
        return token
