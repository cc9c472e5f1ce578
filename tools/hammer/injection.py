"""Markup in every text that a report shows: the page must keep its elements, whatever the texts are.

The page is made twice, with hostile texts and with plain ones in their places; the hostile one must have no
element or attribute that the plain one has not, and none that a browser would run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from tools.hammer.campaign import Fault, Target
from tools.hammer.jobs import JOBS, Job, whole
from tools.hammer.processes import Child, command
from tools.hammer.world import World

if TYPE_CHECKING:
    from senteval_runner.report.page import Page

MARKUP = (
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload='x'>", "</svg></td>"),
    *("</style><script>", "<!--", "]]>", "&lt;b&gt;", "{{ 7*7 }}", "{% x %}", "' onmouseover='x", "`|*_"),
    *("javascript:alert(1)", "\x1b[31m", "$x_1$", "\u202e", "<a href=javascript:x>y</a>"),
)
PLAIN = "plain"
Pick = Callable[[], str]


class _Elements(HTMLParser):
    """The elements of a page with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))
        if tag in ("script", "iframe", "object", "base"):
            self.active.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.active.append(f"{tag} {name}")


def elements(html: str) -> _Elements:
    """Parse a page."""
    parser = _Elements()
    parser.feed(html)
    parser.close()
    return parser


def _page(pick: Pick, rng: random.Random) -> Page:
    """A page with every kind of block, its texts drawn from ``pick``."""
    import numpy as np

    from senteval_runner.report import plots
    from senteval_runner.report.page import Figure, Page, Section
    from senteval_runner.report.table import Column, Score, Table

    rows = [[pick(), Score(rng.random(), rng.random()), rng.random(), pick()] for _ in range(3)]
    names = [f"{pick()} {number}" for number in range(3)]
    table = Table([Column(pick()), Column(pick()), Column(pick()), pick()], rows, title=pick())
    blocks: list[Table | Figure | str] = [table, pick(), Figure("", caption=pick(), note=pick())]
    draw = rng.randrange(5)
    if draw == 0:
        values = {(name, group): rng.random() for name in names for group in names}
        blocks.append(plots.bars(names, names, values, caption=pick()))
    elif draw == 1:
        blocks.append(plots.curves({n: [(0, 1), (1, 2)] for n in names}, x_label=pick(), caption=pick()))
    elif draw == 2:
        points = [(rng.random(), rng.random()) for _ in range(6)]
        titles = [pick() for _ in points]
        blocks.append(plots.scatter(points, [0, 1, 2] * 2, names, titles=titles, caption=pick()))
    elif draw == 3:
        blocks.append(plots.heat_map({pick(): np.ones((3, 3))}, names, names, label=pick(), caption=pick()))
    return Page(pick(), [Section(pick(), blocks, note=pick())], introduction=pick())


def _report(rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """A page of the shared report layer."""
    seed = rng.random()
    hostile = _page(lambda: rng.choice(MARKUP) + rng.choice(MARKUP), random.Random(seed)).html()
    plain = _page(lambda: PLAIN, random.Random(seed)).html()
    _compare(hostile, plain)
    return {"pages": 1}


def _tree(rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """The drawing of a sentence's trees."""
    from parsing.trees import draw

    def html(pick: Pick) -> str:
        words, tags = [pick() for _ in range(4)], [pick() for _ in range(4)]
        relations = [pick() for _ in range(4)]
        spans = [(0, 4, pick()), (1, 3, pick())]
        return draw.dependency_svg(words, [2, 0, 2, 3], relations, tags) + draw.constituency_svg(
            words, tags, spans
        )

    _compare(html(lambda: rng.choice(MARKUP)), html(lambda: PLAIN))
    return {"pages": 1}


def _compare(hostile: str, plain: str) -> None:
    """Raise Fault if the hostile page has an active element, or one that the plain page has not."""
    found, wanted = elements(hostile), elements(plain)
    if found.active != wanted.active:
        raise Fault(f"active elements in a report: {found.active[:3]}")
    drawn = {"g", "use", "path", "text", "tspan", "defs"}  # matplotlib sets formulas and long names otherwise
    new = [element for element in found.found if element not in wanted.found and element[0] not in drawn]
    if new:
        raise Fault(f"a text became markup: {new[:3]}")


def _command(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """A command's report over inputs in whose every text stands markup."""
    whole(job, world)
    mark = rng.choice(MARKUP).replace("/", "").replace("\x1b", "")
    words = []
    for word in job.typed(world):
        before, sign, path = word.rpartition("=")
        if path.startswith(str(world.root)):
            copy = folder / f"in-{len(words)}"
            _marked(Path(path), copy, mark)
            path = str(copy)
        words.append(f"{before}{sign}{path}")
    ended = Child(command(job.module, words), folder).wait()
    fault = ended.fault([0, 2])
    if fault:
        raise Fault(f"with {mark!r}: {fault}")
    pages = sorted((folder / "out").rglob("*.html"))
    for page in pages:
        active = elements(page.read_text(encoding="utf-8")).active
        if active != ["script"]:  # the page's own, which sorts tables
            raise Fault(f"{page.name} with {mark!r}: {active[:3]}")
    return {"pages": len(pages), "refused": int(ended.code == 2)}


def _marked(source: Path, copy: Path, mark: str) -> None:
    """Copy a file or folder; every ``it``, ``the`` and ``a`` of its texts is followed by ``mark``."""
    if source.is_dir():
        for path in source.rglob("*"):
            if path.is_file():
                _marked(path, copy / path.relative_to(source), mark)
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    data = source.read_bytes()
    for word in (b" a ", b" the ", b" it ", b" is "):
        data = data.replace(word, word + mark.encode() + b" ")
    copy.write_bytes(data)


def targets() -> list[Target]:
    """``html.*``: pages, drawings, and the commands that write a report."""
    reports = {"senteval", "passages", "layers", "faq"}
    return [
        Target("html.page", _report),
        Target("html.tree", _tree),
        *(
            Target(f"html.{job.name}", partial(_command, job), sandboxed=False)
            for job in JOBS
            if job.name in reports
        ),
    ]
