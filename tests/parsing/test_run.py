"""The command: a text file becomes a cache, a summary and a log; the toy parsers stand for the real ones."""

import io
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from parsing import costs
from parsing.run import ParseConfig, cli, main, parsing_devices, refuse_own_input
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from tests.parsing.pipeline.toy_parsers import load_toys, odd_sentences, write_cache

TEXT = (
    "The first sentence .\nThe second , of the first document .\n\n\n"
    "A nul \0 in it .\n\u202eשלום עולם\n" + "long " * 200 + "\n" + "x" * 1000 + "\n日本語 の 文 🙂 \x07"
)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toy parsers, in this process."""
    monkeypatch.setattr("parsing.text_parser.load", load_toys)
    monkeypatch.setattr("runtime.pool.LocalPool._start", lambda self: None)


def config_of(tmp_path: Path, **options) -> ParseConfig:
    (tmp_path / "hard.txt").write_bytes(TEXT.encode())
    return ParseConfig(
        corpus=str(tmp_path / "hard.txt"),
        output=tmp_path / "cache",
        **{"tokenize": "space", "workers": 1, **options},
    )


def test_a_text_file_becomes_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(config_of(tmp_path))
    out = capsys.readouterr().out
    for part in ("7 sentences", "2 documents, 1 shard\n", "too long: 1", "replaced bytes: 1", "sha256"):
        assert part in out
    cache = TreeCache.open(tmp_path / "cache")
    assert cache.documents().tolist() == [0, 2, 7]
    assert cache.flags().tolist() == [0, 0, 8, 0, 7, 0, 0]
    assert list(cache.read(6, 7).words()) == [["日本語", "の", "文", "🙂", "\x07"]]
    assert json.loads((tmp_path / "cache" / "config.json").read_text())["tokenize"] == "space"
    assert (tmp_path / "cache" / "log.txt").exists()
    main(config_of(tmp_path))
    assert "everything was there already" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["-", "pipe"])
def test_a_stream_is_parsed_like_a_file(source: str, tmp_path: Path, monkeypatch, refusal) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("standard-input").write_bytes(TEXT.encode())
    main(ParseConfig(corpus="standard-input", output=Path("file"), tokenize="space", workers=1))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    writer = threading.Thread(target=Path("pipe").write_bytes, args=(TEXT.encode(),), daemon=True)
    writer.start()
    main(ParseConfig(corpus=source, tokenize="space", workers=1))
    file, stream = (TreeCache.open(Path(name)) for name in ("file", "runs/trees/standard-input"))
    assert stream.identity == file.identity
    assert json.loads((stream.folder / "config.json").read_text())["corpus"] == source
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert "holds no sentences" in refusal(cli, "-", "--dry-run")


def test_the_gpus_of_a_machine_are_used_if_the_user_asks(monkeypatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/dev/nvidiactl")
    monkeypatch.setattr("runtime.device.pick_device", lambda name: SimpleNamespace(type="cuda"))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for name in ("auto", "cuda"):
        assert parsing_devices(name, on_cluster=False) == ["cuda:0", "cuda:1"]
    assert parsing_devices(ParseConfig(corpus="books").device, on_cluster=False) == ["cpu"]
    assert [parsing_devices(name, on_cluster=True) for name in ("auto", "cuda")] == [["cpu"], ["cuda"]]


def test_dry_run_scales_a_sample_up(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(costs, "SAMPLE", 5)
    main(config_of(tmp_path, dry_run=True))
    out = capsys.readouterr().out
    for part in ("about 7 sentences", "5 sentences, parsed by one worker", "\ndisk ", "\ntime "):
        assert part in out
    assert not (tmp_path / "cache").exists()


def test_an_output_inside_the_corpus_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("A cat sat.\n")
    monkeypatch.chdir(tmp_path)
    for output in ("corpus/trees", str(tmp_path / "corpus" / "a" / ".." / "trees")):
        with pytest.raises(UserError, match=f"--output {output}: lies in the corpus folder"):
            refuse_own_input("corpus", Path(output))
    for output in ("trees", "corpus/.trees", "corpus2"):
        refuse_own_input("corpus", Path(output))
    assert "lies in the corpus folder" in refusal(cli, "corpus", "--output", "corpus/trees")


def test_no_worker_starts_for_what_is_refused(tmp_path: Path, monkeypatch, refusal) -> None:
    """A parser that is not there, a corpus without sentences, a folder with the trees of another text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("runtime.pool.LocalPool.__enter__", None)
    Path("empty.txt").write_text("\n\n")
    Path("some.txt").write_text("A cat sat.\n")
    write_cache(tmp_path / "other", odd_sentences(5))
    for words, message in (
        (["some.txt", "--dep-model", "no/parser"], "no/parser: no such model folder"),
        (["some.txt", "--const-model", "benpar_en3"], "benpar_en3: no such folder or file"),
        (["empty.txt"], "empty.txt: holds no sentences"),
        ([""], "'': no such corpus, file or folder"),
        (["some.txt", "--output", "other"], "other: holds the trees of another run (corpus."),
    ):
        assert message in refusal(cli, *words)


def test_the_papers_preset_parses_with_both_checkpoints(tmp_path: Path, capsys, refusal) -> None:
    (tmp_path / "webbase_all").mkdir()
    tagged = "A_DT cat_NN sat_VBD ._. It_PRP slept_VBD ._.\n"
    (tmp_path / "webbase_all" / "a.possf2").write_text(tagged * 3)
    words = ["umbc", "--preset", "paper", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    line = refusal(cli, *words)
    assert "--dep-model FOLDER" in line and "github.com/yzhangcs/parser" in line
    gone = [*words[:-4], "--data", str(tmp_path / "gone"), "--dry-run"]
    assert cli(gone) == cli([*gone, "--dep-model", "gone", "--const-model", "gone"]) == 2
    output, errors = capsys.readouterr()
    for part in ("2,048 sentences, parsed by one", "work         40,000,000 sentences", "\ndisk ", "\ntime "):
        assert output.count(part) == 2
    first, second = errors.splitlines()
    assert first.endswith(output.splitlines()[0]), "said before the estimate, too"
    assert "--dep-model FOLDER" in first and f"is not in {tmp_path / 'gone'}" in first
    assert "--dep-model" not in second and f"is not in {tmp_path / 'gone'}" in second
    for name in ("dep", "const"):
        (tmp_path / name).mkdir()
        words += [f"--{name}-model", str(tmp_path / name)]
    assert cli([*words, "--workers", "1"]) == 0
    output = capsys.readouterr().out
    assert "6 sentences" in output
    assert f"not the paper's parsers: dependencies by {tmp_path / 'dep'} (" in output
    saved = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (saved["limit"], saved["tokenize"]) == ("40M", "space")  # 3.1
