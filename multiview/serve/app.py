"""The application: routes, limits, errors, metrics. Answers are computed by :mod:`multiview.serve.queue`.

Errors have OpenAI's form, ``{"error": {"message", "type", "param", "code"}}``, with one sentence as message.
Their statuses are:

- 400: the request is not JSON
- 401: the token is missing or wrong
- 404: there is no such path or model
- 405: the path is asked by another method, such as POST in place of GET
- 413: the request has too many bytes or inputs
- 422: a value is wrong
- 429: too many requests wait
- 500: a fault of the server
- 503: a worker process died twice over the request, or, of ``/health``, the models are not open yet
- 504: the request took too long

The log and the metrics also have the status 499 for a client that hung up before the answer.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hmac
import json
import logging
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from multiview.serve import worker
from multiview.serve.config import ServeConfig
from multiview.serve.queue import QueueFullError, WorkerDiedError, WorkQueue
from multiview.serve.requests import (
    CompareRequest,
    EmbeddingsRequest,
    JudgeRequest,
    RequestBody,
    RerankRequest,
    SearchRequest,
)
from runtime import __version__
from runtime.errors import UserError, printable

log = logging.getLogger("multiview.serve")
PAGE = Path(__file__).with_name("page.html")
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of the page, which is one file and sends requests to this server alone."""
OPEN_PATHS = ("/", "/health", "/live")
"""The paths that need no token."""
PROBES = ("/health", "/live", "/metrics")
"""The paths that monitoring asks again and again; the log has no line for them."""
RETRY_AFTER_S = 1
"""The seconds after which a client may try again, in the header Retry-After."""
AnyBody = TypeVar("AnyBody", bound=RequestBody)
Handler = Callable[[Request], Awaitable[Response]]


class JsonLines(logging.Formatter):
    """Writes a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level and message of a record, or path and status in place of the message."""
        time_of_day = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time_of_day, "level": record.levelname}
        line |= getattr(record, "request", {"message": record.getMessage()})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def error(status: int, message: str, **headers: str) -> JSONResponse:
    """Return an error in OpenAI's form; ``headers`` are written with "_" in place of "-"."""
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    body = {"error": {"message": printable(message), "type": kind, "param": None, "code": None}}
    return JSONResponse(
        body, status, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


class Service:
    """One server: its options, queue, and metrics."""

    def __init__(self, config: ServeConfig) -> None:
        self.config, self.token = config, config.token()
        self.queue = WorkQueue(
            (config.model, config.index, config.judge, config.max_length, config.max_inputs),
            workers=config.workers, max_batch=config.max_batch, size=config.queue, timeout=config.timeout,
        )  # fmt: skip
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter("multiview_requests", "Requests", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "multiview_request_seconds", "Seconds to an answer", ["path"], registry=registry
        )
        self.items = Counter("multiview_items", "Sentences, pairs and searches", ["path"], registry=registry)
        waiting = Gauge("multiview_waiting_requests", "Requests that wait", registry=registry)
        waiting.set_function(lambda: len(self.queue.requests))
        ready = Gauge("multiview_ready_workers", "Workers that are ready", registry=registry)
        ready.set_function(lambda: self.queue.ready_workers)
        deaths = Gauge("multiview_worker_deaths", "Workers that died", registry=registry)
        deaths.set_function(lambda: self.queue.deaths)
        failed = Gauge("multiview_reload_failed", "Whether SIGHUP found no model to open", registry=registry)
        failed.set_function(lambda: self.queue.reload_failed)

    @property
    def model_name(self) -> str:
        """The name of the model in answers, which is the name of its folder."""
        return Path(self.config.model).name

    def app(self) -> Starlette:
        """Return the application."""
        posts = {
            "/v1/embeddings": self.embeddings, "/embeddings": self.embeddings,
            "/rerank": self.rerank, "/v1/rerank": self.rerank, "/v2/rerank": self.rerank,
            "/judge": self.judge, "/search": self.search, "/compare": self.compare,
        }  # fmt: skip
        gets = {
            "/": self.page, "/health": self.health, "/live": self.live, "/metrics": self.metrics,
            "/v1/models": self.models, "/v1/models/{model:path}": self.models,
        }  # fmt: skip
        routes = [
            Route(path, self._measured(path, handler), methods=["POST"]) for path, handler in posts.items()
        ]
        routes += [Route(path, self._measured(path, handler)) for path, handler in gets.items()]
        # Errors of a handler are answered by _run; these are raised outside handlers, such as 404.
        handlers = {kind: self._answer_error for kind in (HTTPException, Exception)}
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.queue.start()
        loop, tasks = asyncio.get_running_loop(), set()

        def reload() -> None:
            task = loop.create_task(self.queue.reload())
            tasks.add(task)  # the loop itself would not keep it
            task.add_done_callback(tasks.discard)

        with contextlib.suppress(ValueError, RuntimeError):  # no signals outside the main thread
            loop.add_signal_handler(signal.SIGHUP, reload)
        yield
        await self.queue.stop()

    def _measured(self, path: str, handler: Handler) -> Handler:
        """Return a handler that runs ``handler`` by :meth:`_run`, and counts and logs the request."""

        @functools.wraps(handler)
        async def measured(request: Request) -> Response:
            request.state.path, began = path, time.perf_counter()
            response = await self._run(request, handler)
            seconds = time.perf_counter() - began
            self.requests.labels(path, response.status_code).inc()
            self.seconds.labels(path).observe(seconds)
            request_log = {
                "method": request.method,
                "path": path,
                "status": response.status_code,
                "ms": round(1000 * seconds, 1),
            }
            if path not in PROBES:
                line = f"{path} {response.status_code} {1000 * seconds:.1f} ms"
                log.info("%s", line, extra={"request": request_log})
            return response

        return measured

    async def _run(self, request: Request, handler: Handler) -> Response:
        """Return the response of a handler, or an error if the token is wrong or the handler raised one."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        # Not the path of request.url, which is made of the Host that the client sends.
        asks = bool(self.token) and request.scope["path"] not in OPEN_PATHS
        if asks and not hmac.compare_digest(given.encode(), self.token.encode()):
            return error(401, "this server asks for a token: Authorization: Bearer TOKEN")
        try:
            return await handler(request)
        except Exception as raised:
            return self._answer_error(request, raised)

    def _answer_error(self, request: Request, raised: Exception) -> Response:
        """Return the response to an error; one that is a fault of this server is logged."""
        retry_after = str(RETRY_AFTER_S)
        match raised:
            case QueueFullError():
                return error(429, "too many requests wait; try again", retry_after=retry_after)
            case TimeoutError():
                return error(504, f"no answer within {self.config.timeout:g} seconds")
            case WorkerDiedError():
                message = "the process that had this request died; try again"
                return error(503, message, retry_after=retry_after)
            case HTTPException():
                return error(raised.status_code, raised.detail)
            case ClientDisconnect():
                return Response(status_code=499)
            case UserError():
                return error(422, str(raised))
        log.error("%s", request.scope["path"], exc_info=raised)
        return error(500, "the server failed; its log says why")

    async def _read(self, request: Request, body_type: type[AnyBody]) -> AnyBody:
        """Return the body of a request.

        Raises HTTPException if it is too long or not JSON, and UserError if a field is wrong.
        """
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self.config.max_bytes:
                raise HTTPException(413, f"a request has at most {self.config.max_bytes:,} bytes here")
        try:
            return body_type.model_validate_json(bytes(body))
        except ValidationError as invalid:
            fault = invalid.errors(include_url=False)[0]
            if fault["type"] == "json_invalid":
                raise HTTPException(400, f"the request is not JSON in UTF-8 ({fault['msg']})") from None
            field = ".".join(
                str(part) for part in fault["loc"] if not str(part).startswith(("list[", "constr"))
            )
            raise UserError(f"{field or 'the request'}: {fault['msg'].lower()}") from None

    async def _compute(
        self, request: Request, function: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]
    ) -> list[Any]:
        """Return the result of each item of a request, by a function of :mod:`multiview.serve.worker`.

        Raises HTTPException if there are too many items, UserError if one is refused, and ClientDisconnect if
        the client hangs up before the results are there.
        """
        if len(items) > self.config.max_inputs:
            raise HTTPException(
                413, f"a request has at most {self.config.max_inputs:,} items here, not {len(items):,}"
            )
        answer = asyncio.create_task(self.queue.submit(function, items))
        gone = asyncio.create_task(self._hang_up(request))
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not answer.done():
            answer.cancel()
            raise ClientDisconnect
        results = answer.result()
        for index, result in enumerate(results):
            if isinstance(result, worker.Refused):
                raise UserError(f"item {index}: {result.reason}")
        self.items.labels(request.state.path).inc(len(items))
        return results

    @staticmethod
    async def _hang_up(request: Request) -> None:
        """Wait until the client of a request hangs up."""
        while (await request.receive())["type"] != "http.disconnect":
            pass

    def _check_model(self, name: str | None) -> None:
        if name not in (None, self.model_name, self.config.model):
            raise HTTPException(404, f"model {name}: this server has {self.model_name}")

    async def embeddings(self, request: Request) -> Response:
        """Answer ``POST /v1/embeddings``."""
        body = await self._read(request, EmbeddingsRequest)
        self._check_model(body.model)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if any(not isinstance(text, str) for text in texts):
            raise UserError("input: token numbers of another model cannot be read here; send the text itself")
        if not texts:
            raise UserError("input: holds no text")
        results = await self._compute(request, worker.embed, texts)
        vectors = [self._cut(result.vector, body.dimensions) for result in results]
        as_base64 = body.encoding_format == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
                if as_base64
                else vector.tolist(),
            }
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(result.tokens for result in results)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return self._json({"object": "list", "data": data, "usage": usage})

    @staticmethod
    def _cut(vector: np.ndarray[Any, np.dtype[np.float32]], dimensions: int | None) -> Any:
        """Return the first ``dimensions`` numbers of a vector, scaled to length 1.

        Raises UserError if the vector has fewer numbers.
        """
        if dimensions is None:
            return vector
        if dimensions > len(vector):
            raise UserError(f"dimensions: {dimensions}: this model has {len(vector)}")
        cut = vector[:dimensions]
        return cut / max(float(np.linalg.norm(cut)), 1e-12)

    def _json(self, content: dict[str, Any]) -> Response:
        """Return a response with the content, the model's name and the version of the package."""
        return JSONResponse({**content, "model": self.model_name, "version": __version__})

    async def rerank(self, request: Request) -> Response:
        """Answer ``POST /rerank``, best first."""
        body = await self._read(request, RerankRequest)
        self._check_model(body.model)
        texts = [each if isinstance(each, str) else each.text for each in body.documents]
        if not texts:
            raise UserError("documents: holds none")
        pairs = [(body.query, text) for text in texts]
        scores = await self._compute(request, worker.similarity, pairs)
        best_first = sorted(range(len(texts)), key=lambda index: -scores[index])[: body.top_n]
        results = [
            {"index": index, "relevance_score": scores[index]}
            | ({"document": {"text": texts[index]}} if body.return_documents else {})
            for index in best_first
        ]
        tokens = {"total_tokens": sum(len(text.split()) for text in (body.query, *texts))}
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return self._json({"id": str(uuid.uuid4()), "results": results, "usage": tokens, "meta": meta})

    async def judge(self, request: Request) -> Response:
        """Answer ``POST /judge``."""
        body = await self._read(request, JudgeRequest)
        return self._json({"results": await self._compute(request, worker.judge, body.pairs)})

    async def compare(self, request: Request) -> Response:
        """Answer ``POST /compare``."""
        body = await self._read(request, CompareRequest)
        (result,) = await self._compute(request, worker.compare, [(body.a, body.b)])
        return self._json(result)

    async def search(self, request: Request) -> Response:
        """Answer ``POST /search``."""
        body = await self._read(request, SearchRequest)
        item = worker.SearchItem(body.query, body.top, body.text, body.judge)
        (hits,) = await self._compute(request, worker.search, [item])
        return self._json({"results": hits})

    async def models(self, request: Request) -> Response:
        """Answer ``GET /v1/models`` and ``GET /v1/models/NAME``."""
        model = {
            "id": self.model_name,
            "object": "model",
            "created": 0,
            "owned_by": "multiview",
            "version": __version__,
            "digest": self.queue.digest,
        }
        name = request.path_params.get("model")
        self._check_model(name)
        return JSONResponse(model if name else {"object": "list", "data": [model]})

    async def health(self, request: Request) -> Response:
        """Answer ``GET /health``: 200 once every worker has opened its models, else 503."""
        queue = self.queue
        workers = {"ready": queue.ready_workers, "of": len(queue.pools)}
        status = "ready" if queue.is_ready else queue.fault or "the models are being opened"
        body = {"status": status, "workers": workers, "model": self.model_name, "version": __version__}
        return JSONResponse({**body, "digest": queue.digest}, 200 if queue.is_ready else 503)

    async def live(self, request: Request) -> Response:
        """Answer ``GET /live``: 200 while the server answers at all, whatever its workers do."""
        return JSONResponse({"status": "live"})

    async def metrics(self, request: Request) -> Response:
        """Answer ``GET /metrics`` for Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)

    async def page(self, request: Request) -> Response:
        """Answer ``GET /``: the page for people."""
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers={"Content-Security-Policy": POLICY})
