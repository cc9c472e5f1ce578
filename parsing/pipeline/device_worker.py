"""One process per GPU, which parses for all workers.

    worker: flags, fallbacks ─┐                            ┌─► binarising, arrays
    worker: flags, fallbacks ─┼─► device worker ─► parses ─┼─► binarising, arrays
    worker: flags, fallbacks ─┘   (word ids, network, CKY and spanning trees)

A worker runs ``parse_shard`` as it does without a device; only its parsers are stand-ins that send sentences
here. Each worker has a thread here for each view, so while the device scores the sentences of one, those of
others are being received, decoded or sent back. A batch holds the sentences of one request, so trees do not
depend on who asks first.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import AuthenticationError, current_process
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Generic, Literal, TypeVar

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError, out_of_memory
from parsing.pipeline.worker import die_with_parent
from parsing.pipeline.workers import LoadedParsers, Messages, ParserFactories
from parsing.trees.parsers import ConstituencyParse, DependencyParse, DeviceLost

WAITING_WORKERS = 512
"""Workers that may wait for an answer while the parsers are loaded."""
View = Literal["dependency", "constituency"]
Address = tuple[str, int]
Parse = TypeVar("Parse", DependencyParse, ConstituencyParse)
Answer = TypeVar("Answer")
log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a parser has besides ``parse``."""

    identity: dict[str, str]
    relations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no answer."""

    reason: str
    kind: Literal["sentence", "memory", "lost", "refused"]


class DeviceWorker:
    """The process, as the driver sees it.

    Args:
        context: how processes are started.
        factories: how it makes its parsers, on their device.
    """

    def __init__(self, context: SpawnContext, factories: ParserFactories) -> None:
        ours, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=serve, args=(theirs, factories), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.address: Address = ours.recv()
        except EOFError:
            self.process.join()
            raise DeviceLost(f"no device worker (exit code {self.process.exitcode})") from None
        self.factories = ParserFactories(
            dependency=partial(RemoteDependencyParser, self.address) if factories.dependency else None,
            constituency=partial(RemoteConstituencyParser, self.address) if factories.constituency else None,
        )
        """How workers make the stand-ins for its parsers."""


def serve(pipe: Connection, factories: ParserFactories) -> None:
    """Main function of the process: says where it listens, loads the parsers, then answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    die_with_parent()
    with Listener(("127.0.0.1", 0), backlog=WAITING_WORKERS, authkey=_key()) as listener:
        pipe.send(listener.address)
        messages = Messages.install()
        loaded = _load(factories)
        while True:
            # A worker that ends while it introduces itself is not missed.
            with contextlib.suppress(AuthenticationError, EOFError, OSError):
                arguments = (listener.accept(), loaded, messages)
                threading.Thread(target=_answer, args=arguments, daemon=True).start()


def _key() -> bytes:
    """A secret that the driver's processes share, so that no other user of the machine is answered."""
    return bytes(current_process().authkey)


def _load(factories: ParserFactories) -> LoadedParsers | Fault:
    try:
        return LoadedParsers.make(factories)
    except UserError as error:
        return Fault(str(error), "refused")
    except Exception as error:
        return Fault(f"{type(error).__name__}: {error}", "memory" if out_of_memory(error) else "sentence")


def _answer(pipe: Connection, loaded: LoadedParsers | Fault, messages: Messages) -> None:
    """Parse for one worker and view until it ends."""
    with contextlib.suppress(EOFError, OSError), pipe:
        view: View = pipe.recv()
        if isinstance(loaded, Fault):
            pipe.send(loaded)
            return
        parser = getattr(loaded, view)
        names = {name: getattr(parser, name, ()) for name in ("relations", "labels", "tags")}
        pipe.send(Offer(dict(parser.identity), **names))
        while True:
            sentences: Sequence[Sequence[str]] = pipe.recv()
            answer: object
            try:
                answer = parser.parse(sentences)
            except DeviceLost as error:
                answer = Fault(str(error), "lost")
            except Exception as error:
                answer = Fault(str(error), "memory" if out_of_memory(error) else "sentence")
            pipe.send((answer, messages.take()))


class _Remote(Generic[Parse]):
    """The part that both stand-ins share.

    Args:
        address: of the device worker.
        view: which of its parsers.

    Raises:
        UserError: the parser cannot be loaded, or the device worker has ended.
    """

    def __init__(self, address: Address, view: View) -> None:
        with _lost():
            self._pipe = Client(address, authkey=_key())
            self._pipe.send(view)
            offer: Offer | Fault = self._pipe.recv()
        self.offer = _checked(offer)
        self.identity = self.offer.identity

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """One parse per sentence, in order.

        Raises:
            DeviceLost: the device worker has ended, or its device failed.
            ValueError: the parser failed on these sentences.
        """
        answer: list[Parse] | Fault
        with _lost():
            self._pipe.send([tuple(tokens) for tokens in sentences])
            answer, lines = self._pipe.recv()
        for line in lines:
            log.warning("%s", line)
        return _checked(answer)


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError, AuthenticationError):
        raise DeviceLost(
            "the process of the device has ended; the same command goes on from what is done"
        ) from None


def _checked(answer: Answer | Fault) -> Answer:
    """The answer, unless it is a fault."""
    if not isinstance(answer, Fault):
        return answer
    errors = {"memory": MemoryError, "lost": DeviceLost, "refused": UserError, "sentence": ValueError}
    raise errors[answer.kind](answer.reason)


class RemoteDependencyParser(_Remote[DependencyParse]):
    """A :class:`parsing.trees.parsers.DependencyParser` in a device worker."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, "dependency")
        self.relations = self.offer.relations


class RemoteConstituencyParser(_Remote[ConstituencyParse]):
    """A :class:`parsing.trees.parsers.ConstituencyParser` in a device worker."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, "constituency")
        self.labels, self.tags = self.offer.labels, self.offer.tags
