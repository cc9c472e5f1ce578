"""What a user installs: every command, the data files, types; it works from elsewhere."""

import configparser
import email
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

import runtime
from tests.fixtures.commands import PIPELINE, commands
from tests.fixtures.processes import ROOT, run_python

pytestmark = pytest.mark.repo

SENTENCES = (
    "The cat sat on the mat.\nIt slept all day.\n\nPrices fell sharply.\nInvestors sold their shares.\n"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree, so that nothing is left behind in it."""
    source = tmp_path_factory.mktemp("source")
    for package in PIPELINE:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "LICENSES", source / "LICENSES")
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the working tree."""
    out = tmp_path_factory.mktemp("wheel")
    options = ("-q", "--no-deps", "--no-build-isolation", "-w", out)
    run_python("-m", "pip", "wheel", *options, source).check_returncode()
    (path,) = out.glob("*.whl")
    return path


def test_a_folder_of_a_packages_name_does_not_hide_an_editable_install(source: Path, tmp_path: Path) -> None:
    build = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    run_python("-c", build, cwd=source).check_returncode()
    (editable,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(editable) as archive:
        archive.extractall(tmp_path / "site")
    for package in PIPELINE:
        (tmp_path / "work" / package).mkdir(parents=True)
    look = (
        "import site, sys\nsite.addsitedir(sys.argv[1])\nfrom importlib.util import find_spec\n"
        "print(*(find_spec(package).origin for package in sys.argv[2:]))"
    )
    words = ("-S", "-c", look, tmp_path / "site", *PIPELINE)
    process = run_python(*words, cwd=tmp_path / "work", PYTHONPATH="")
    assert process.stdout.split() == [str(source / package / "__init__.py") for package in PIPELINE]


def test_a_package_of_one_of_the_names_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """As where another distribution has it, or the folder where one works."""
    other = tmp_path / "parsing"
    other.mkdir()
    (other / "__init__.py").touch()
    process = run_python("-c", "import multiview", cwd=tmp_path)
    sentence = f"ImportError: {other} is another package of the name parsing and hides this project"
    assert process.stderr.splitlines()[-1].startswith(sentence)


@pytest.fixture(scope="module")
def files(wheel: Path) -> dict[str, bytes]:
    """What the wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_every_command_is_a_console_script(files: dict[str, bytes]) -> None:
    parser = configparser.ConfigParser()
    (name,) = (name for name in files if name.endswith("entry_points.txt"))
    parser.read_string(files[name].decode())
    scripts = {k: v.removesuffix(":cli") for k, v in parser["console_scripts"].items()}
    names = {module: module.replace("senteval_runner.", "senteval.", 1) for module in commands()}
    assert {script: module.removesuffix(".__main__") for script, module in scripts.items()} == {
        re.sub(r"[._]", "-", name): module for module, name in names.items()
    }


def test_version_and_licences_of_code_and_weights_are_in_the_wheel(files: dict[str, bytes]) -> None:
    (folder,) = {name.split("/")[0] for name in files if ".dist-info/" in name}
    metadata = email.message_from_bytes(files[f"{folder}/METADATA"])
    texts = [files[f"{folder}/licenses/{name}"].decode() for name in metadata.get_all("License-File")]
    assert metadata["Version"] == runtime.__version__
    names = [Path(name).stem for name in metadata.get_all("License-File")]
    assert {*names[1:], "Apache-2.0"} == {*metadata["License-Expression"].split(" AND ")}
    beginnings = ("Apache License", "Attribution 4.0 International", "Attribution-ShareAlike 4.0", "research")
    assert all(beginning in text for beginning, text in zip(beginnings, texts, strict=False))
    assert "Google LLC" in texts[4] and "WordNet 3.0 Copyright 2006 by Princeton University" in texts[6]
    for name in ("pairs", "pairs-with-mrpc", "similarity_weights/free", "similarity_weights/rated"):
        licence = json.loads(files[f"multiview/judge/{name}.json"])["about"]["licence"]
        assert {*licence.split(" AND ")} <= {*metadata["License-Expression"].split(" AND ")}
        assert ("MRPC" in licence) == (name == "pairs-with-mrpc")
        assert ("SICK" in licence) == (name == "similarity_weights/rated")


def test_data_files_are_in_the_wheel(files: dict[str, bytes]) -> None:
    paths = {
        str(path.relative_to(ROOT))
        for package in PIPELINE
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.endswith("model.safetensors") for name in paths) and "multiview/py.typed" in paths
    (metadata,) = {name.split("/")[0] for name in files} - set(PIPELINE)  # no tests, tools, benchmarks
    assert metadata.endswith(".dist-info")
    assert {name for name in files if not name.startswith(metadata)} == paths


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_installed_pipeline_works_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    run_python("-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel).check_returncode()
    for code in (file for package in PIPELINE for file in (ROOT / package).rglob("__pycache__/*.nbc")):
        shutil.copy(code, site / code.relative_to(ROOT).parent)  # compiled from the same files
    (tmp_path / "corpus.txt").write_text(SENTENCES, encoding="utf-8")
    words = (site / "bin/multiview-search", "builtin", "corpus.txt", "It slept all day.", "--top", "1")
    result = run_python(*words, cwd=tmp_path, timeout_s=600, PYTHONPATH=str(site))
    assert result.returncode == 0, result.stderr
    assert result.stdout.split(maxsplit=2) == ["1.0000", "1", "It slept all day.\n"]
