"""Hostile folders: code, pickles, paths that lead out and loops, given to everything that loads a model."""

from __future__ import annotations

import json
import random
import shutil
from functools import partial
from pathlib import Path

from tools.hammer.campaign import Fault, Target
from tools.hammer.processes import Child, command
from tools.hammer.world import World

TRACE = "executed"
"""A file that hostile code would leave."""
LOADERS = {
    "multiview.compact": "evil --output c",
    "multiview.encode": "evil @text/corpus.txt --output v.npy",
    "multiview.explain": "evil cat dog --output e.html",
    "multiview.search": "evil @text/corpus.txt cat",
    "multiview.info": "evil",
    "multiview.export": "evil",
    "senteval_runner.run": "evil --data @senteval/senteval --tasks CR --protocol fast --output out --cache v",
    "studies.layers": "evil --data @senteval/senteval --tasks CR --protocol fast --output out --cache v",
    "studies.similarity": "evil --data @senteval/senteval --output out",
    "studies.faq": "@faq --models evil --split random --runs 1 --output out",
    "studies.passages": "wikiqa=@passages/wikiqa --models evil --output out --cache v",
    "studies.passages-cross": "wikiqa=@passages/wikiqa --cross.backbones evil --cross.steps 1 --output out",
    "studies.burt": "--output out --nli @pairs/nli.tsv --objectives nli --backbone evil --epochs 0.1",
    "studies.multitask": "--output out --data @senteval --stages SA --backbone evil --epochs 1",
    "parsing.run-dep": "@text/corpus.txt --output out --views dep --dep-model evil --workers 1",
    "parsing.run-const": "@text/corpus.txt --output out --views const --const-model evil --workers 1",
    "parsing.convert-dep": "dep evil/model.pt out",
    "parsing.convert-const": "const evil/model.pt out",
    "parsing.verify": "evil",
}
"""What loads a folder; the word after the dash only tells two uses of a command apart."""


class _Bomb:
    """Pickled, it makes a file where it is opened."""

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (TRACE, "w"))


def _code(folder: Path) -> None:
    """A transformer folder whose ``auto_map`` names its own code."""
    source = f"open({TRACE!r}, 'w').close()\n"
    (folder / "evil.py").write_text(source, encoding="utf-8")
    names = ("AutoConfig", "AutoModel", "AutoTokenizer", "AutoModelForSequenceClassification")
    mapped: dict[str, object] = {name: "evil.Evil" for name in names}
    mapped["AutoTokenizer"] = ["evil.Evil", "evil.Evil"]
    config = {"model_type": "evil", "architectures": ["Evil"], "auto_map": mapped}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = {"tokenizer_class": "Evil", "auto_map": mapped}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def _modules(folder: Path) -> None:
    """A sentence-transformers folder whose module is its own code."""
    _code(folder)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    versions = {"__version__": {"sentence_transformers": "9.0"}, "model_type": "SentenceTransformer"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(versions), encoding="utf-8")


def _pickle(folder: Path) -> None:
    """Weights that are a pickle, under every name that libraries look for; a config that looks right."""
    import pickle

    bomb = pickle.dumps(_Bomb())
    for name in ("pytorch_model.bin", "model.pt", "model.safetensors", "heads.bin", "training_args.bin"):
        (folder / name).write_bytes(bomb)
    config = {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 9}), encoding="utf-8")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n", encoding="utf-8")


def _ours(folder: Path, change: dict[str, object], world: World) -> None:
    shutil.copytree(world("models") / "trained", folder, dirs_exist_ok=True)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps(config), encoding="utf-8")


CHANGES: tuple[dict[str, object], ...] = (
    {"members": ["."]},
    {"members": ["../evil"]},
    {"members": ["/etc"]},
    {"members": "abc"},
    {"members": [None, {}]},
    {"views": ["dep"] * 100_000},
    {"views": {"dep": 1}},
    {"encoder": {"dim": 10**30}},
    {"encoder": []},
    {"words": {"kind": "__import__('os').system('touch executed')"}},
    {"parsers": {"dep": "evil"}},
    {"parsers": 5},
)
"""What is done to the config.json of a model of ours."""


def _parser(folder: Path, world: World, kind: str, rng: random.Random) -> None:
    shutil.copytree(world("parsers") / kind, folder, dirs_exist_ok=True)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config[rng.choice(list(config))] = rng.choice([None, [], {}, 10**30, "evil.Evil", [["x"]]])
    path.write_text(json.dumps(config), encoding="utf-8")


def _manifest(folder: Path, rng: random.Random, world: World) -> None:
    """A tree cache that points out of its folder, or claims the impossible."""
    shutil.copytree(world("cache"), folder, dirs_exist_ok=True)
    path = folder / "manifest.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    key = rng.choice(["index", "sentences", "tokens", "sha256", "documents"])
    value["shards"][rng.randrange(3)][key] = rng.choice([-1, 10**18, "../../etc/passwd", None, [], 1.5])
    path.write_text(json.dumps(value), encoding="utf-8")


def make(folder: Path, rng: random.Random, world: World) -> str:
    """Make one hostile folder; returns its kind."""
    folder.mkdir()
    kind = rng.choice(["code", "modules", "pickle", "ours", "dep", "const", "manifest", "loop"])
    match kind:
        case "code":
            _code(folder)
        case "modules":
            _modules(folder)
        case "pickle":
            _pickle(folder)
        case "ours":
            _ours(folder, rng.choice(CHANGES), world)
        case "manifest":
            _manifest(folder, rng, world)
        case "loop":
            (folder / "config.json").symlink_to("config.json")
            (folder / "manifest.json").symlink_to("/dev/zero" if rng.random() < 0.5 else "manifest.json")
        case _:
            _parser(folder, world, kind, rng)
    return kind


def targets() -> list[Target]:
    """``hostile.*``: one per loader."""
    return [
        Target(f"hostile.{name}", partial(_attempt, name), sandboxed=False, modules=("torch", "transformers"))
        for name in LOADERS
    ]


def _attempt(name: str, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """Give a loader a hostile folder, and a user who answers every question with yes."""
    kind = make(folder / "evil", rng, world)
    module, _, _ = name.partition("-")
    words = []
    for word in LOADERS[name].split():
        before, mark, given = word.partition("@")
        path = given.split("/", 1)
        words.append(f"{before}{world(path[0]).joinpath(*path[1:])}" if mark else word)
    ended = Child(command(module, words), folder, stdin=b"y\n" * 50).wait(120)
    if list(folder.rglob(TRACE)) or Path(TRACE).exists():
        raise Fault(f"{kind}: foreign code was executed")
    fault = ended.fault([0, 2])
    if fault:
        raise Fault(f"{kind}: {fault}")
    return {"hostile": 1, "refused": int(ended.code == 2)}
