"""Make a console script of every command; pyproject.toml says everything else about the package."""

from pathlib import Path

from setuptools import setup

PACKAGES = ("runtime", "corpora", "parsing", "multiview", "senteval_runner", "studies")


def console_scripts() -> list[str]:
    """List the scripts of all modules with a main guard, such as ``senteval-run = senteval_runner.run:cli``.

    The ``__main__`` module of a package is named after the package.
    """
    root = Path(__file__).resolve().parent
    scripts = []
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            name = module.removesuffix(".__main__").replace("senteval_runner.", "senteval.", 1)
            scripts.append(f"{name.replace('.', '-').replace('_', '-')} = {module}:cli")
    return scripts


setup(
    entry_points={
        "console_scripts": console_scripts(),
        "spacy_factories": ["multiview_parser = parsing.spacy_component:make"],
    }
)
