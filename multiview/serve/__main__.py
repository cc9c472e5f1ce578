"""Serve an encoder and the judge over HTTP, to clients of OpenAI's embeddings and of rerankers.

    python -m multiview.serve builtin --workers 2 --port 8000
    python -m multiview.serve runs/models/MODEL --index answers.txt --token-file token.txt

Paths are ``/v1/embeddings``, ``/rerank``, ``/judge``, ``/search``, ``/compare``, ``/v1/models``, ``/health``,
``/live``, ``/metrics`` and ``/``, a page to try it on (docs/serving.md). SIGTERM ends the server after the
requests that it has are answered; SIGHUP opens the models anew.
"""

import logging
import socket
import sys

from corpora.inputs import is_stream
from multiview.sentence_input import SentenceInput
from multiview.serve.config import ServeConfig
from runtime.cli import Command
from runtime.errors import UserError, extra


def main(config: ServeConfig) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    from multiview.folder.files import model_folder, model_record
    from multiview.judge.judge import load_weights

    # A wrong model or judge is refused here, because a worker process would find it only later.
    model_record(model_folder(config.model))
    load_weights(config.judge)
    config.token()
    if config.index is not None:
        if is_stream(config.index):
            raise UserError(
                f"--index {config.index}: a stream, but every worker reads it; write it to a file"
            )
        SentenceInput(config.index)
    with extra("serve"):
        import uvicorn

        from multiview.serve.app import Service
    formatter: dict[str, object] = {"format": "%(asctime)s %(levelname)s %(message)s"}
    if config.log == "json":
        formatter = {"()": "multiview.serve.app.JsonLines"}
    loggers = {"level": "INFO", "handlers": ["lines"], "propagate": False}
    log_config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": formatter},
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {"uvicorn": loggers, "multiview.serve": loggers},
    }
    settings = uvicorn.Config(
        Service(config).app(),
        config.host,
        config.port,
        log_config=log_config,
        access_log=False,
        timeout_graceful_shutdown=round(config.timeout) + 1,
    )
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        listening = socket.create_server((config.host, config.port), family=family, backlog=settings.backlog)
    except OSError as error:
        address = f"--host {config.host} --port {config.port}"
        raise UserError(
            f"{address}: the server cannot listen there ({error.strerror}); give another"
        ) from None
    # Without this, answers on connections that asyncio accepts wait for an acknowledgement (40 ms).
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    logging.getLogger("multiview.serve").info("listening at %s port %s", config.host, config.port)
    with listening:
        uvicorn.Server(settings).run(sockets=[listening])


cli = Command(
    ServeConfig,
    main,
    "multiview.serve",
    "Serve vectors, judgements and search over HTTP, to clients of OpenAI and of rerankers.",
    kept_work="what was asked is answered",
)


if __name__ == "__main__":
    sys.exit(cli())
