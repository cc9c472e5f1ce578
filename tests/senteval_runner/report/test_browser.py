"""The report in a real browser: everything is drawn, nothing sticks out of the page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from senteval_runner import running
from tests.senteval_runner.test_run import config

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MEASURE = """<script>
const box = e => e.getBoundingClientRect();
const all = (s) => [...document.querySelectorAll(s)];
document.title = JSON.stringify({
  page: document.documentElement.scrollWidth,
  window: window.innerWidth,
  empty: all('svg').filter(e => box(e).width < 50 || box(e).height < 50).length,
  outside: all('svg [id^=bar-], svg [id^=points-] use').filter(e => {
    const a = box(e), b = box(e.closest('svg'));
    return a.right > b.right + 1 || a.left < b.left - 1 || a.bottom > b.bottom + 1 || a.top < b.top - 1;
  }).length,
  circles: all('svg [id^=points-] use').length,
  bars: all('svg [id^=bar-]').length,
  best: all('td.best').filter(e => getComputedStyle(e).fontWeight >= 600).length,
  published: all('tr.apart td').filter(e => getComputedStyle(e).fontStyle == 'italic').length,
  ragged: all('table').filter(t => new Set([...t.rows].map(r => [...r.cells].reduce(
    (n, c) => n + c.colSpan, 0))).size > 1).length,
  overlapping: all('svg').filter(s => {
    const names = [...s.querySelectorAll('g[id^=xtick] text')].map(box);
    return names.some((a, i) => i && names[i - 1].right > a.left && names[i - 1].top == a.top);
  }).length,
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_report_in_chromium(tmp_path: Path, data: Path, words: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples.txt").write_text("good bright\nbad\n")
    models = (str(words), "random:seq")
    tasks = "CR,MRPC,SICK-E,SICK-R,WordContent,MPQA"
    options = {"tasks": tasks, "seeds": "1,2", "examples": tmp_path / "examples.txt"}
    assert running.run(config(tmp_path, data, *models, **options)) == 0
    page = (tmp_path / "report/report.html").read_text()
    assert "Skipped" in page and "Nearest neighbours" in page
    (tmp_path / "measured.html").write_text(page.replace("</body>", MEASURE))
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1200,2000",
            "--dump-dom",
            str(tmp_path / "measured.html"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-500:]
    seen = json.loads(html.unescape(title[1]))
    assert seen["page"] <= seen["window"]  # wide tables scroll in their own box
    wrong = {name: seen[name] for name in ("empty", "outside", "ragged", "overlapping") if seen[name]}
    assert not wrong
    # 2 models x (PCA and t-SNE) of the task's test sentences; 2 bars for each of 5 tasks
    assert seen["circles"] == 4 * 52 and seen["bars"] == 10
    assert seen["best"] >= 5 and seen["published"] == 17 * 14 + 6 * 2  # the rows of tables 3 and 2
