"""Writes the README.md of a model folder: how the model was trained, what that gained, what to try next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiview.config import (
    BUILTIN_WORDS,
    NO_VECTORS,
    ContinueConfig,
    NewViewsConfig,
    ProgramConfig,
    options_of,
    preset_options,
)
from multiview.encoders.registry import BAG, plugin_modules
from multiview.folder.files import NO_CARD, Model, model_folder, parsers_of
from multiview.model_config import BUILTIN
from parsing.trees.batch import ANNOTATIONS
from runtime.folders import current_folder, readme_text

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache


def training_command(config: ProgramConfig) -> str:
    """Return a short command line of a configuration: its preset, and the options that differ from it."""
    arguments = []
    for module in plugin_modules(config.view_list):
        arguments += ["--plugin", module]
    arguments += ["--preset", config.preset]
    defaults = options_of(preset_options(config.preset))
    for name, value in options_of(config).items():
        if name not in ("preset", "dry-run") and value != defaults[name]:
            arguments += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return f"python -m multiview.train {shlex.join(arguments)}"


class Card:
    """The card of a model of new views: how it was trained, what that gained, and what to try next.

    ``config`` is the configuration of the training, and ``trees`` the text that it learned from.
    """

    def __init__(self, config: NewViewsConfig, trees: TreeCache) -> None:
        self.name, self.folder = config.model_name, config.folder
        self.command = training_command(config)
        self.teacher = config.objective.teacher
        self.has_bag = BAG in config.view_list
        """Whether the mean of the words is a view of the model already."""
        self.beside = config.beside
        parsers = parsers_of(trees.identity)
        # The encoder in the package reads trees of its own parsers only, which are of English.
        builtin_reads = len(parsers) == len(ANNOTATIONS) and not foreign_parsers(parsers)
        self.next_if_ahead = (
            f"one vector made for cosine: python -m multiview.readout {config.folder} {trees.folder}"
        )
        self.next_if_words_are_ahead = self.next_if_nothing_learned = ""
        if config.words_mode == "trained":
            vectors = config.vectors
            if vectors == NO_VECTORS:
                vectors = BUILTIN_WORDS if builtin_reads else "FILE"
            command = training_command(
                replace(config, words="fixed", vectors=vectors, name=f"{config.model_name}-fixed")
            )
            self.next_if_words_are_ahead = f"start from words that know more than this text: {command}"
        if builtin_reads:
            self.next_if_nothing_learned = (
                "go on from the encoder in the package instead: python -m multiview.train --trees "
                f"{trees.folder}"
            )
        self.next_else = self.next_if_nothing_learned or self.next_if_ahead

    def verdict(self, start: Mapping[str, float], best: Mapping[str, float]) -> list[tuple[str, str]]:
        """Return what training gained on the held-out sentences and what to try next, as labels and texts.

        ``start`` are the scores before the first step, ``best`` those of the weights that are kept.
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
        if not self.has_bag:
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
        if not step:
            advice = self.next_if_nothing_learned
        else:
            advice = self.next_if_words_are_ahead if better_baselines else self.next_if_ahead
        return [*lines.items(), ("next", advice or self.next_else)]

    def includes_words(self, scores: Mapping[str, float]) -> bool:
        """Tell whether the mean of the words becomes the last view of a model with these scores.

        ``--beside`` decides; without it the mean becomes a view if more neighbours are found with it.
        """
        if self.has_bag:
            return False
        if self.beside:
            return self.beside == "words"
        return scores.get("recall@1/both", 0.0) > scores.get("recall@1", 0.0)

    def text(self, model: Model, verdict: Sequence[tuple[str, str]]) -> str:
        """Return the README.md of a model, with what :meth:`verdict` returned."""
        network, words, training = model.network, model.network.words, model.training
        origin = "the start: no validation since had a lower loss"
        if step := training["step"]:
            origin = f"step {step}, which had seen {training['sentences']:,} sentences"
        widths = zip(network.views, network.widths, strict=True)
        views = ", ".join(f"{view} {width}" for view, width in widths)
        paragraphs = [
            f"Sentence encoder of {len(network.views)} views ({views}), {network.dim} dimensions side by "
            f"side; {len(words.vocabulary)} words, {words.mode}{', ' if words.origin else ''}{words.origin}.",
            example(self.folder, model),
            "## Training",
            f"    {self.command}",
            f"Corpus: {model.corpus.get('name', 'unknown')}; tree cache content {training['trees'][:16]}. "
            f"The weights are those of {origin}. The configuration is in config.json.",
        ]
        if self.teacher is not None:
            paragraphs.append(
                f"The views also learned from a sentence encoder's vectors of the corpus, `{self.teacher}`; "
                "what that encoder was trained on counts for this model too."
            )
        if not str(model.corpus.get("tokenizer")).startswith("spacy"):
            splits = "`encode` splits strings by spaCy's rules; lists of words stay."
            paragraphs.append(f"The corpus came in words. {splits}")
        facts = [
            f"{kind} trees of {identity.get('name', '?')} {identity.get('version', '')}"
            for kind, identity in sorted(model.parsers.items())
        ]
        facts += [f"{label}: {finding}" for label, finding in verdict]
        paragraphs += [
            "\n".join(f"- {fact}" for fact in facts),
            "All on held-out sentences of the same corpus; neighbours are the sentences before and after, "
            "looked for in blocks of up to 400. Other text, other languages and single words are untested.",
        ]
        return readme_text(self.name, *paragraphs)


class StartCard:
    """The card of a model that went on from another: its start, what training gained, whose licences count.

    ``config`` is the configuration of the training, and ``trees`` the text or the pairs it learned from.
    """

    def __init__(self, config: ContinueConfig, trees: TreeCache) -> None:
        self.name, self.folder, self.start = config.model_name, config.folder, config.start
        self.command = training_command(config)
        self.trees = trees
        licence = "CC BY-SA 4.0" if config.start == BUILTIN else f"see {config.start}/README.md"
        self.origins = [f"the start, `{config.start}` ({licence})"]
        self.origins += [f"the text, `{trees.folder.name}`"] if config.reads_text else []
        self.origins += [f"the pairs, `{name}`" for name in sorted(map(str, config.pairs))]

    def includes_words(self, _: Mapping[str, float]) -> bool:
        """Return False: the mean of the words never becomes a view when training goes on."""
        return False

    def verdict(self, start: Mapping[str, float], best: Mapping[str, float]) -> list[tuple[str, str]]:
        """Return what training gained on the held-out data and what to try next, as labels and texts.

        ``start`` are the scores before the first step, ``best`` those of the weights that are kept.
        """
        if "loss" not in start or "loss" not in best:
            return [("gained", "unknown: no sentence was held out, see --loop.validation")]
        step = best["step"]
        lines = {"gained": f"loss {start['loss']:.4f} at the start, {best['loss']:.4f} at step {step}"}
        if "recall@1" in best:
            lines["neighbours"] = (
                f"nearest by cosine: {start['recall@1']:.1%} at the start, {best['recall@1']:.1%} at step "
                f"{step}, {best['recall@1/words']:.1%} by the average of its words"
            )
        kinds = ("accuracy@1/meaning", "the partner is first in", ".1%"), ("spearman", "correlation", ".3f")
        for name, says, form in kinds:
            if f"pairs/{name}" in best:
                before, after = (f"{of[f'pairs/{name}']:{form}}" for of in (start, best))
                lines["pairs"] = f"{says} {before} at the start, {after} at step {step}"
        gains = bool(step)
        if not step:
            lines["no gain"] = f"this is {self.start}: no step was better on what was held out"
        elif "neighbours" in lines and "pairs" not in lines and best["recall@1"] <= start["recall@1"]:
            gains = False
            lines["no gain"] = f"over {self.start}: the vectors find no more neighbours; more text may help"
        model = self.folder if gains else self.start
        lines["next"] = f"search by {model}: python -m multiview.search {model} {self.trees.folder}"
        return list(lines.items())

    def text(self, model: Model, verdict: Sequence[tuple[str, str]]) -> str:
        """Return the README.md of a model, with what :meth:`verdict` returned."""
        network, training = model.network, model.training
        widths = zip(network.views, network.widths, strict=True)
        views = ", ".join(f"{view} {width}" for view, width in widths)
        read_out = f", read out as {network.readout.dim}" if network.readout else ""
        origin = f"step {training['step']}" if training["step"] else "the start, which no step improved"
        facts = [f"{label}: {finding}" for label, finding in verdict]
        paragraphs = [
            f"Sentence encoder that went on from `{self.start}`: views {views}{read_out}.",
            example(self.folder, model),
            "## Training",
            f"    {self.command}",
            f"The weights are those of {origin}; words are the start's. The configuration is in config.json.",
            "\n".join(f"- {fact}" for fact in facts),
            "All on sentences or pairs that were held out; neighbours are the sentences before and after, "
            "looked for in blocks of up to 400.",
            "## Licences",
            f"These count for the model: {'; '.join(self.origins)}; and what these were made from.",
        ]
        return readme_text(self.name, *paragraphs)


def example(folder: Path, model: Model) -> str:
    """Return the lines of Python that load the model and encode a sentence."""
    foreign = foreign_parsers(model.parsers).items()
    parsers = "".join(f', {kind}_model="FOLDER OF {name}"' for kind, name in foreign)
    lines = [f"import {module}" for module in plugin_modules(model.network.views)]
    lines += [
        "from multiview.model import MultiViewEncoder",
        f'MultiViewEncoder.load("{folder}"{parsers}).encode(["A sentence."])',
    ]
    return "\n".join(f"    {line}" for line in lines)


def foreign_parsers(parsers: Mapping[str, Any]) -> dict[str, str]:
    """Return, by annotation, the names of those parsers that are not in the package."""
    names = {kind: str(identity.get("name", "?")) for kind, identity in parsers.items()}
    return {kind: name for kind, name in names.items() if not name.startswith(BUILTIN)}


def readout_card(source: Path, target: Path, command: str, facts: Sequence[str]) -> str:
    """Return the README.md of a model with another read-out: the old card and a section on the new read-out.

    The card of ``builtin`` is replaced by a short text, because its scores are those of its own read-out.

    Args:
        source: the folder of the model.
        target: the folder that the model with the new read-out is written to.
        command: the command that fitted the read-out.
        facts: what is known of the read-out, one line each.
    """
    section = "\n\n".join(["## Read-out", f"    {command}", "\n".join(f"- {fact}" for fact in facts)]) + "\n"
    if source == model_folder(BUILTIN):
        builtin = (
            "Sentence encoder: `builtin`, the one in the package, with another read-out. Scores of `builtin` "
            "are not this model's. The weights are under CC BY-SA 4.0 as there; the card there says what "
            "they were trained on."
        )
        return readme_text(target.name, builtin, section.rstrip())
    readme = current_folder(source) / "README.md"
    has_card = readme.is_file() and not readme.is_symlink()
    old_card = readme.read_text(encoding="utf-8", errors="replace") if has_card else NO_CARD
    body = re.sub("^# .*", f"# {target.name}", old_card.partition("## Read-out")[0].rstrip())
    return f"{body}\n\n{section}"
