"""Writes the README.md of a model folder: how the model was trained, what that gained, what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from multiview.config import BUILTIN_WORDS, NO_VECTORS, TrainConfig, decisive_options, options_of, preset
from multiview.encoders.registry import BAG, plugin_modules
from multiview.folder.files import BUILTIN, PARSER_KINDS, Member, parsers_of

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache

ENOUGH_SENTENCES = 200_000
"""With fewer sentences over given words, more text is the first thing to try."""


def training_command(config: TrainConfig) -> str:
    """Return a short command line that gives this configuration: a preset and the options that differ."""
    arguments = []
    for module in plugin_modules(config.view_list):
        arguments += ["--plugin", module]
    arguments += ["--preset", config.preset]
    defaults = options_of(preset(config.preset))
    for name, value in options_of(config).items():
        if name not in ("preset", "dry-run") and value != defaults[name]:
            arguments += [f"--{name}", str(value)]
    return f"python -m multiview.train {shlex.join(arguments)}"


class Card:
    """Writes how a model was trained, what that gained and what to try next."""

    def __init__(self, config: TrainConfig, trees: TreeCache) -> None:
        self.config, self.trees = config, trees
        content = str(trees.identity.get("content_sha256", ""))
        self.identity = {**decisive_options(options_of(config)), "content of --trees": content}
        """Options and text that a resumed run must have in common with the one before."""

    def verdict(self, start: Mapping[str, float], best: Mapping[str, float]) -> list[tuple[str, str]]:
        """Say what training gained on the validation set, and one command to go on with, each with a label.

        ``start`` are the metrics before the first step, ``best`` those of the weights that are kept.
        """
        if not best.get("anchors"):
            return [("gained", "unknown: no sentence was held out, see --loop.validation")]
        step, with_words = best["step"], self.includes_words(best)
        recall, word_recall = best["recall@1"], best["recall@1/words"]
        lines = {
            "gained": f"loss {start['loss']:.4f} at the start, {best['loss']:.4f} at step {step}; the "
            f"objective finds a neighbour first in {start['accuracy@1']:.1%} and {best['accuracy@1']:.1%} "
            "of cases",
            "neighbours": f"nearest by cosine, numbers centred and at one scale: {start['recall@1']:.1%} at "
            f"the start, {recall:.1%} at step {step}, {word_recall:.1%} by the average of its words",
        }
        if BAG not in self.config.view_list:
            decision = "it stands beside them" if with_words else "they stand alone"
            lines["beside"] = (
                f"with the mean of their words the views find {start['recall@1/both']:.1%} at the start, "
                f"{best['recall@1/both']:.1%} at step {step}: {decision}"
            )
        if not step:
            lines["kept"] = "the weights of the start: no step had a lower loss on the validation set"
        metric = "recall@1/both" if with_words else "recall@1"
        better_baselines = []
        if step and best[metric] <= start[metric]:
            better_baselines.append("its start")
        if best[metric] <= word_recall:
            better_baselines.append("the average of its words")
        if better_baselines:
            lines["no gain"] = f"over {' and '.join(better_baselines)}: the vectors find no more neighbours"
        command = self._next_command(has_learned=step > 0, is_ahead=not better_baselines)
        return [*lines.items(), ("next", command)]

    def includes_words(self, scores: Mapping[str, float]) -> bool:
        """Tell whether the mean of its words is one more view: by ``--beside``, else by what finds more."""
        if BAG in self.config.view_list:
            return False
        if self.config.beside:
            return self.config.beside == "words"
        return scores.get("recall@1/both", 0.0) > scores.get("recall@1", 0.0)

    def text(self, member: Member, verdict: Sequence[tuple[str, str]]) -> str:
        """Return the README.md: how the model was trained, what that gained, its limits."""
        config, network, words = self.config, member.network, member.network.words
        origin = "the start: no validation since had a lower loss"
        if step := member.training["step"]:
            origin = f"step {step}, which had seen {member.training['sentences']:,} sentences"
        widths = zip(network.views, network.widths, strict=True)
        views = ", ".join(f"{view} {width}" for view, width in widths)
        foreign = foreign_parsers(member.parsers).items()
        parsers = "".join(f', {need}_model="FOLDER OF {name}"' for need, name in foreign)
        text = (
            f"# {config.model_name}\n\n"
            f"Sentence encoder of {len(network.views)} views ({views}), {network.dim} dimensions side by "
            f"side; {len(words.vocabulary)} words, {words.mode}{', ' if words.origin else ''}{words.origin}."
            "\n\n"
            + "".join(f"    import {module}\n" for module in plugin_modules(network.views))
            + "    from multiview.model import MultiViewEncoder\n"
            f'    MultiViewEncoder.load("{config.folder}"{parsers}).encode(["A sentence."])\n\n'
            f"## Training\n\n    {training_command(config)}\n\n"
            f"Corpus: {member.corpus.get('name', 'unknown')}; tree cache content "
            f"{member.training['trees'][:16]}. The weights are those of {origin}. The configuration is in "
            "config.json.\n\n"
        )
        if config.objective.teacher is not None:
            text += (
                "The views also learned from a sentence encoder's vectors of the corpus, "
                f"`{config.objective.teacher}`; what that encoder was trained on counts for this model "
                "too.\n\n"
            )
        if not str(member.corpus.get("tokenizer")).startswith("spacy"):
            splits = "`encode` splits strings by spaCy's rules; lists of words stay."
            text += f"The corpus came in words. {splits}\n\n"
        for need, identity in sorted(member.parsers.items()):
            text += f"- {need} trees of {identity.get('name', '?')} {identity.get('version', '')}\n"
        text += "".join(f"- {label}: {finding}\n" for label, finding in verdict)
        return (
            f"{text}\nAll on held-out sentences of the same corpus; neighbours are the sentences before and "
            "after, looked for in blocks of up to 400. Other text, other languages and single words are "
            "untested.\n"
        )

    def _next_command(self, *, has_learned: bool, is_ahead: bool) -> str:
        """Choose the one thing to try, by whether the loss fell and whether the views are ahead of words."""
        config, trees = self.config, self.trees
        parsers = parsers_of(trees.identity)
        # The encoder in the package reads its own parsers' trees, which are of English.
        builtin_reads = len(parsers) == len(PARSER_KINDS) and not foreign_parsers(parsers)
        if not has_learned and builtin_reads:
            output = config.output / "builtin-adapted"
            command = f"multiview.readout {BUILTIN} {trees.folder} --output {output}"
            return f"adapt the encoder in the package to this text instead: python -m {command}"
        if has_learned and is_ahead:
            return f"one vector made for cosine: python -m multiview.readout {config.folder} {trees.folder}"
        if has_learned and config.words_mode == "trained":
            vectors = config.vectors
            if vectors == NO_VECTORS:
                vectors = BUILTIN_WORDS if builtin_reads else "FILE"
            new_config = replace(config, words="fixed", vectors=vectors, name=f"{config.model_name}-fixed")
            return f"start from words that know more than this text: {training_command(new_config)}"
        if len(trees) < ENOUGH_SENTENCES or not builtin_reads:
            return f"train on more text than {len(trees):,} sentences: python -m parsing.run umbc"
        command = f"multiview.search {BUILTIN} {trees.folder}"
        return f"the encoder in the package, without training: python -m {command}"


def foreign_parsers(parsers: Mapping[str, Any]) -> dict[str, str]:
    """Return the names, by annotation, of the parsers that are not those in the package."""
    names = {need: str(identity.get("name", "?")) for need, identity in parsers.items()}
    return {need: name for need, name in names.items() if not name.startswith(BUILTIN)}


def combined_card(config: TrainConfig) -> str:
    """Return the README.md of a folder with both of the paper's configurations."""
    return (
        f"# {config.model_name}\n\nTwo models whose vectors are concatenated: `trained/` with trained word "
        "tables, `fixed/` with fixed pre-trained vectors. One reading of the 4800 dimensions of Simoulin & "
        f"Crabbé 2021 (2 models x 2 views); the paper does not say.\n\n    {training_command(config)}\n"
    )
