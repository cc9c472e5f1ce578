"""The bodies of requests: OpenAI's embeddings, the rerankers' of Jina and Cohere, and this project's own.

OpenAI's: https://platform.openai.com/docs/api-reference/embeddings. A field that this service has no use for
(a user's name, the input type of a reranker) is accepted and ignored.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]


class RequestBody(BaseModel):
    """The body of a request. Unknown fields are ignored, since clients send fields of their own.

    No value is taken for one of another type, such as true for 1.
    """

    model_config = ConfigDict(extra="ignore", strict=True)


class EmbeddingsRequest(RequestBody):
    """``POST /v1/embeddings``."""

    input: Text | list[Text] | list[int] | list[list[int]]
    """Texts; tokens, which OpenAI's clients may send as numbers, are refused."""
    model: str | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] = "float"


class Document(RequestBody):
    """A document that a reranker is given as an object."""

    text: Text


class RerankRequest(RequestBody):
    """``POST /rerank``, ``/v1/rerank`` and ``/v2/rerank``."""

    query: Text
    documents: list[Text | Document]
    model: str | None = None
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = False


class JudgeRequest(RequestBody):
    """``POST /judge``."""

    pairs: list[tuple[Text, Text]]


class CompareRequest(RequestBody):
    """``POST /compare``, which the page calls."""

    a: Text
    b: Text


class SearchRequest(RequestBody):
    """``POST /search``: in the server's index, or in ``text``."""

    query: Text
    top: Annotated[int, Field(ge=1, le=1000)] = 10
    text: Text | None = None
    judge: bool = False
    """Whether each hit gets the judgement of query and hit."""
