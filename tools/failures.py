"""Every command under bad conditions, as a user meets them: ``python -m tools.failures`` (root, Linux).

Each command runs without arguments, with an unknown option, with missing input, with a tree cache of another
format, into a folder it may not write, onto a full disk, and with Ctrl-C after several delays. Writes
docs/failures-commands.md, or the rows there of the commands that are named (``python -m tools.failures
multiview.explain``); exit code 1 if a command printed a traceback or ended with a wrong exit code.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.parsing.constituency.examples import benepar_model, save_as_benepar_does
from tests.studies.finetune.fixtures import write_tasks
from tests.studies.passages.passage_sets import write_wikiqa
from tests.test_commands import ROOT, commands

TABLE = ROOT / "docs/failures-commands.md"
HEAD = """# Failures, command by command

Written by `python -m tools.failures`.

| command | condition | exit code | last line |
|---|---|---|---|
"""
SECONDS_TO_CTRL_C = (0.3, 1.0, 4.0, 12.0)
TEXT = "The cat sat on the mat.\nIt slept all day.\n\nPrices fell sharply.\nInvestors sold shares.\n"
BRACKETS = "(ROOT (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)))\n"
CONLLU = "1\tCats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tsleep\tsleep\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
# {out} is the output folder; input files are in the working folder.
RUNS = {
    "parsing.run": "corpus.txt --workers 1 --output {out}/trees",
    "parsing.import_trees": "--ptb t.ptb --output {out}/trees",
    "parsing.export_trees": "trees --conllu {out}/t.conllu",
    "parsing.show": "trees",
    "parsing.info": "trees",
    "parsing.verify": "trees",
    "parsing.train": "dep --train t.conllu --dev t.conllu --loop.epochs 400 --output {out}/p",
    "parsing.score": "const builtin t.ptb",
    "parsing.convert": "const toy.pt {out}/p --trust-pickle",
    "multiview.train": "--trees trees --output {out} --encoder.dim 8 --table.dim 8 --loop.batch 8 "
    "--loop.epochs 2000",
    "multiview.compact": "models/m --sample trees --output {out}/c",
    "multiview.encode": "models/m corpus.txt --output {out}/v.npy",
    "multiview.explain": "models/m cat dog --output {out}/e.html",
    "multiview.search": "models/m corpus.txt cat",
    "multiview.info": "models/m",
    "multiview.export": "models/m",
    "studies.burt": "--output {out}/b --backbone tiny --tiny.layers 1 --nli nli.tsv --objectives nli "
    "--epochs 900",
    "studies.multitask": "--output {out}/m --backbone tiny --tiny.layers 1 --data tasks --stages NLI "
    "--epochs 900",
    "senteval_runner.run": "random:seq --data senteval --tasks CR --output {out}/r",
    "studies.similarity": "random:seq --words words --output {out}/s",
    "senteval_runner.teach": "random:seq --trees trees --output {out}/t",
    "senteval_runner.build_probing": "--trees trees --output {out}/p",
    "studies.analogies": "build --cache trees --candidates category --output {out}/a",
    "studies.faq": "faq --output {out}/f --models random:seq --tune map --split random",
    "studies.layers": "models/m --data senteval --tasks CR --output {out}/l --cache {out}/v",
    "studies.passages": "wikiqa=wikiqa --models random:seq --output {out}/r --cache {out}/v",
    "senteval_runner.demo": "--output {out}/d",
}
INPUTS = {
    "corpus.txt",
    "trees",
    "t.ptb",
    "t.conllu",
    "models/m",
    "nli.tsv",
    "words",
    "faq",
    "senteval",
    "wikiqa",
    "toy.pt",
    "tasks",
}


def prepare(folder: Path) -> None:
    """The files the commands read."""
    files = {"corpus.txt": TEXT * 40, "t.ptb": BRACKETS * 20, "t.conllu": CONLLU * 20}
    files["nli.tsv"] = (
        "entailment\ta cat\tan animal\nneutral\ta cat\ta black cat\ncontradiction\ta cat\ta dog\n" * 40
    )
    files["words/rw.txt"] = "old\taged\t9\nold\tnew\t5\nold\tdog\t1\n"
    files["faq/faq.tsv"] = "doc_id\tquestion\tanswer\nd1\twho\tme\nd2\twhy\tso\n"
    files["faq/queries.tsv"] = "query_id\tquery\nq1\twho is it\nq2\twhy is it\n"
    files["faq/qrels.tsv"] = "query_id\tdoc_id\trelevance\nq1\td1\t1\nq2\td2\t1\n"
    files["senteval/downstream/CR/custrev.pos"] = "it works well\na fine camera\n" * 20
    files["senteval/downstream/CR/custrev.neg"] = "it broke at once\na poor camera\n" * 20
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    write_tasks(folder / "tasks")
    write_wikiqa(folder / "wikiqa")
    save_as_benepar_does(benepar_model(), folder / "toy.pt")
    small = "--encoder.dim 8 --table.dim 8 --loop.batch 8 --loop.max-steps 2 --name m"
    run("parsing.run", "corpus.txt --workers 1 --output trees", folder)
    run("multiview.train", f"--views dep,const --trees trees --output models {small}", folder)
    shutil.copytree(folder / "trees", folder / "old-trees")
    manifest = folder / "old-trees/manifest.json"
    old = json.loads(manifest.read_text(encoding="utf-8")) | {"format_version": 0}
    manifest.write_text(json.dumps(old), encoding="utf-8")


def run(module: str, words: str, cwd: Path, *, ctrl_c_s: float | None = None) -> tuple[int, str]:
    """Exit code and the last line of standard error (of standard output when that is empty).

    The line is "" if the command ended before its Ctrl-C.
    """
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", module, *words.split()],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(cwd), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=ctrl_c_s or 300)
        if ctrl_c_s:
            return process.returncode, ""
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    if "Traceback" in err:
        return process.returncode, "TRACEBACK " + err.strip().splitlines()[-1]
    lines = [line for line in (err.strip() or out.strip()).splitlines() if line.strip("╭╰─│╮╯ ")]
    boxed = [line.strip("│ ") for line in lines if line.startswith("│")]  # tyro's; its last line names --help
    return process.returncode, (boxed or lines[-1:] or [""])[0]


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small, separate file system."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def without_inputs(words: str) -> str:
    """The same words with files that do not exist; ``wikiqa=wikiqa`` becomes ``wikiqa=none``."""
    return re.sub(r"(?<![\w./-])(" + "|".join(map(re.escape, INPUTS)) + r")(?!\S)", "none", words)


def cases(module: str, folder: Path, full: Path, locked: Path) -> Iterator[tuple[str, int, str]]:
    """(condition, exit code, last line) for one command."""
    words = RUNS[module]
    yield ("no arguments", *run(module, "", folder))
    first = words.split()[0] if module in ("parsing.train", "parsing.score", "parsing.convert") else ""
    yield ("unknown option", *run(module, f"{first} --no-such-option", folder))
    missing = without_inputs(words)
    if missing != words:
        yield ("no data", *run(module, missing.format(out="out"), folder))
    if "trees" in words.split():
        older = " ".join("old-trees" if word == "trees" else word for word in words.split())
        yield ("old cache", *run(module, older.format(out="out"), folder))
    if "{out}" in words:
        yield ("full disk", *run(module, words.format(out=full), folder))
        yield ("no permission", *run(module, words.format(out=locked), folder))
    for number, seconds in enumerate(SECONDS_TO_CTRL_C):
        code, text = run(module, words.format(out=f"out/{module}-{number}"), folder, ctrl_c_s=seconds)
        if not text:
            break
        yield (f"Ctrl-C after {seconds:g} s", code, text)


def rows() -> dict[str, list[str]]:
    """The table's lines for each command."""
    found: dict[str, list[str]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines(keepends=True):
        if named := re.match(r"\| `([\w.]+)` \|", line):
            found.setdefault(named[1], []).append(line)
    return found


def main() -> int:
    """Run everything and write the table."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    faults = 0
    chosen = sys.argv[1:] or commands()
    table = rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        with mounted(folder / "full", "size=4k") as full, mounted(folder / "locked", "size=4k,ro") as locked:
            for module in chosen:
                table[module] = []
                for condition, code, text in cases(module, folder, full, locked):
                    # After a second the command may be done and only its libraries still shutting down.
                    expected = (130,) if condition.endswith(" 0.3 s") else (0, 2, 130)
                    fault = text.startswith("TRACEBACK") or code not in expected
                    faults += fault
                    shown = text.replace(str(folder) + "/", "").replace("|", "\\|")[:160]
                    table[module].append(f"| `{module}` | {condition} | {code} | `{shown}` |\n")
                    print(table[module][-1], end="", flush=True)
    lines = [line for module in commands() for line in table.get(module, [])]
    TABLE.write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
