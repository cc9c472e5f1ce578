"""What pages of papers and studies print as commands runs as it stands, on made-up data of a few rows."""

import gzip
import lzma
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from corpora.senteval.tasks import TASKS
from studies.analogies.questions import FILE, read_questions, write_questions
from tests.fixtures.pages import printed_commands, run_here, run_small
from tests.fixtures.processes import ROOT
from tests.fixtures.senteval import write_sts, write_word_vectors
from tests.fixtures.senteval import write_tasks as write_senteval
from tests.fixtures.transformers import build
from tests.studies.faq.faq_set import write_set
from tests.studies.finetune.fixtures import SYNONYMS, nli_rows, ppdb_line, write_jsonl, write_tasks
from tests.studies.passages import passage_sets

pytestmark = pytest.mark.repo
STANDS_FOR = {
    **{"MODEL": "builtin", "all,SNLI": "CR,SICKEntailment", "5000": "100"},
    **{"-1,-12": "-1,-3", "-1,-6": "-1,-2"},
}
"""A model of the reader's; tasks and books of a few rows; layers of transformers of three."""
PAGES = [*sorted((ROOT / "docs/papers").glob("*.md")), ROOT / "docs/studies.md"]
ENCODERS = (
    "all-MiniLM-L6-v2",
    *("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large", "xlnet-base-cased"),
    *("xlnet-large-cased", "albert-base-v2", "albert-xxlarge-v2", "google-bert/bert-base-chinese"),
    *("hfl/chinese-xlnet-base", "hfl/chinese-xlnet-mid"),
    *(f"sentence-transformers/bert-{size}-nli-mean-tokens" for size in ("base", "large")),
)
"""Published models, and what pages say to make like another; here each is one small transformer."""
VECTORS = ("use", "infersent", "infersent-1", "infersent-2", "gensen", "use-v4", "use-v5")
TEXT = (
    "The old dog runs.\nA cat sat on the mat.\nThe king sleeps.\n\nThe boy runs.\nA girl sings.\nIt rains.\n"
)


def write_pairs() -> None:
    """STS, NLI, PPDB, Quora, words and SemEval-2013 under the names that they were published with."""
    rows = [(f"the {a} thing", f"a {b} thing", i % 5 + 0.5) for i, (a, b) in enumerate(SYNONYMS)]
    for task in TASKS.values():
        for subset in task.files if task.reader == "sts" else ():
            write_sts(Path("SENTEVAL"), task.name, subset, rows)
    for name in ("snli_1.0_train", "multinli_1.0_train", "NLI"):
        write_jsonl(Path(f"{name}.jsonl"), nli_rows(60, 1))
    dev = ("snli_1.0_dev", "snli_1.0_test", "multinli_1.0_dev_matched", "multinli_1.0_dev_mismatched")
    for name in dev:
        write_jsonl(Path(f"{name}.jsonl"), nli_rows(12, 2))
    labels = ("Equivalence", "ForwardEntailment", "Independent")
    lines = [ppdb_line(f"{a} {i}", b, labels[i % 3]) for i in range(90) for a, b in SYNONYMS]
    text = "\n".join(lines).replace("PPDB2.0Score=3.5", "PPDB2.0Score=3.5 Equivalence=0.5")
    Path("ppdb-2.0-s-phrasal.gz").write_bytes(gzip.compress(text.encode()))
    rows = [f"{i}\t{i}\t{i}\tthe {a} {i}\tthe {b} {i}\t{i % 2}" for i in range(6) for a, b in SYNONYMS]
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    Path("quora_duplicate_questions.tsv").write_text("\n".join([header, *rows]))
    for folder in ("WORDS", "SEMEVAL2013"):
        Path(folder).mkdir()
    rows = [f"{a}\t{b}\t{place}" for place, (a, b) in enumerate(SYNONYMS)]
    Path("WORDS/EN-SIMLEX-999.txt").write_text("\n".join(rows))
    for name in ("trainSet.positive", "trainSet.negative", "testSet.positive", "testSet.negative"):
        rows = [f"{a}\tthe {b}" for a, b in SYNONYMS]
        Path(f"SEMEVAL2013/en.{name}Instances-v2").write_text("\n".join(rows))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the pages name."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_senteval(Path("SENTEVAL"))
        write_pairs()
        write_tasks(Path("DATA"))
        benchmark = "downstream/STS/STSBenchmark"
        shutil.copytree(Path("DATA/senteval") / benchmark, Path("SENTEVAL") / benchmark)
        shutil.copytree("SENTEVAL", "DATA/senteval", dirs_exist_ok=True)
        write_set(Path("FAQ"))
        passage_sets.write_wikiqa(Path("wikiqa"), (20, 5, 5))
        for name in passage_sets.PAPER:
            getattr(passage_sets, f"write_{name.removesuffix('-t')}")(Path(name))
        Path("wikipedia.txt.xz").write_bytes(lzma.compress((TEXT * 3).encode()))
        Path("QUESTIONS").write_text(TEXT)
        family = [q for q in read_questions(FILE) if q.category == "male-female" and q.name[-2:] == "00"]
        write_questions(Path("questions.tsv"), family)
        write_word_vectors(Path("glove.840B.300d.txt"), sorted(set(TEXT.lower().split())))
        Path("DATA/umbc").mkdir()
        blocks = [" ".join(f"{word}_NN" for word in part.split()) for part in TEXT.split("\n\n") * 4]
        Path("DATA/umbc/delorme.com_shu.pages_1.possf2").write_text("\n\n".join(blocks))
        for kind, name in (("dep", "FOLDER"), ("const", "benepar_en3")):
            shutil.copytree(ROOT / f"parsing/builtin/{kind}-v3", name)
        small = build(Path("tiny"), "bert", width=4)
        for name in ENCODERS:
            shutil.copytree(small, name)
    return folder


def without(words: list[str], *options: str) -> tuple[str, ...]:
    """The words but for these options and the value of each."""
    places = [words.index(option) for option in options if option in words]
    return tuple(word for place, word in enumerate(words) if not {place, place - 1} & {*places})


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_printed_command_runs(page: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    monkeypatch.setattr("studies.views.run.subprocess", SimpleNamespace(run=run_here))
    monkeypatch.setenv("MULTIVIEW_DATA", str(data / "DATA"))
    commands = printed_commands(page.read_text(encoding="utf-8"))
    assert commands
    made: dict[tuple[str, ...], str] = {}
    for module, words in commands:
        words = [STANDS_FOR.get(word, word) for word in words]
        output = words[words.index("--output") + 1] if "--output" in words else ""
        same = module, *without(words, "--backbone", "--output")
        if same in made:  # of another transformer, which is the same small one here
            shutil.copytree(made[same], output)
            continue
        run_small(module, words)
        made |= {same: output} if output else {}
        if module == "studies.sentences":
            lines = Path(words[0]).read_text().split("\n")[:-1]
            vectors = np.random.default_rng(0).normal(size=(len(lines), 4))
            for name in VECTORS:
                np.savez(f"{name}.npz", sentences=lines, vectors=vectors)
