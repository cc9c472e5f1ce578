"""The README.md of a model folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from multiview.config import BUILTIN_WORDS, NO_VECTORS, TrainConfig, decisive_options, options_of, preset
from multiview.encoders.registry import BAG, plugin_modules
from multiview.folder.files import BUILTIN, KINDS, Member, parsers_of
from runtime.cli import config_to_json

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache

ENOUGH = 200_000
"""Sentences below which more text is the first thing to try for more neighbours over given words."""


def training_command(config: TrainConfig) -> str:
    """Return a short command line that gives this configuration: a preset and the options that differ."""
    defaults = options_of(preset(config.preset))
    words = [word for module in plugin_modules(config.view_list) for word in ("--plugin", module)]
    words += ["--preset", config.preset]
    for name, value in options_of(config).items():
        if name not in ("preset", "dry-run") and value != defaults[name]:
            words += [f"--{name}", str(value)]
    return f"python -m multiview.train {shlex.join(words)}"


class Card:
    """Says how a model was trained, what that gained and what to try next."""

    def __init__(self, config: TrainConfig, trees: TreeCache) -> None:
        self.config, self.trees = config, trees
        self.command = training_command(config)
        self.config_json = config_to_json(config)
        content = str(trees.identity.get("content_sha256", ""))
        self.identity = {**decisive_options(options_of(config)), "content of --trees": content}
        """What a resumed run must have in common with the one before."""

    def verdict(self, start: Mapping[str, float], best: Mapping[str, float]) -> list[tuple[str, str]]:
        """Say what training gained on the validation set, and one command to go on with, each with a label.

        ``start`` are the metrics before the first step, ``best`` those of the weights that are kept.
        """
        if not best.get("anchors"):
            return [("gained", "unknown: no sentence was held out, see --loop.validation")]
        step, recall, words = best["step"], best["recall@1"], best["recall@1/words"]
        both, beside = best["recall@1/both"], self.words_help(best)
        first = " and ".join(f"{scores['accuracy@1']:.1%}" for scores in (start, best))
        lines = {
            "gained": f"loss {start['loss']:.4f} at the start, {best['loss']:.4f} at step {step}; the "
            f"objective finds a neighbour first in {first} of cases",
            "neighbours": f"nearest by cosine, numbers centred and at one scale: {start['recall@1']:.1%} at "
            f"the start, {recall:.1%} at step {step}, {words:.1%} by the average of its words",
        }
        if BAG not in self.config.view_list:
            result = "it stands beside them" if beside else "they stand alone"
            recalls = f"{start['recall@1/both']:.1%} at the start, {both:.1%} at step {step}"
            lines["beside"] = f"with the mean of their words the views find {recalls}: {result}"
        if not step:
            lines["kept"] = "the weights of the start: no step had a lower loss on the validation set"
        after, before = (scores["recall@1/both" if beside else "recall@1"] for scores in (best, start))
        less = {"its start": step and after <= before, "the average of its words": after <= words}
        behind = [over for over, is_behind in less.items() if is_behind]
        if behind:
            lines["no gain"] = f"over {' and '.join(behind)}: the vectors find no more neighbours"
        return [*lines.items(), ("next", self._next_command(step > 0, not behind))]

    def words_help(self, scores: Mapping[str, float]) -> bool:
        """Tell whether the words stand beside the views: as asked, else by what finds more neighbours."""
        beside, has_words = self.config.beside, BAG in self.config.view_list
        if beside or has_words:
            return beside == "words" and not has_words
        return scores.get("recall@1/both", 0.0) > scores.get("recall@1", 0.0)

    def text(self, member: Member, verdict: Sequence[tuple[str, str]]) -> str:
        """Write the README.md: how the model was trained, what that gained, its limits."""
        config, network, words = self.config, member.network, member.network.words
        step, seen, trees = (member.training[key] for key in ("step", "sentences", "trees"))
        origin = f"step {step}, which had seen {seen:,} sentences"
        origin = origin if step else "the start: no validation since had a lower loss"
        views = ", ".join(
            f"{view} {width}" for view, width in zip(network.views, network.widths, strict=True)
        )
        own = own_parsers(member.parsers).items()
        parsers = "".join(f', {need}_model="FOLDER OF {name}"' for need, name in own)
        text = (
            f"# {config.model_name}\n\n"
            f"Sentence encoder of {len(network.views)} views ({views}), {network.dim} dimensions side by "
            f"side; {len(words.vocabulary)} words, {words.mode}"
            f"{words.origin and f', {words.origin}'}.\n\n"
            + "".join(f"    import {module}\n" for module in plugin_modules(network.views))
            + "    from multiview.model import MultiViewEncoder\n"
            f'    MultiViewEncoder.load("{config.folder}"{parsers}).encode(["A sentence."])\n\n'
            f"## Training\n\n    {self.command}\n\n"
            f"Corpus: {member.corpus.get('name', 'unknown')}; tree cache content {trees[:16]}. The weights "
            f"are those of {origin}. The configuration is in config.json.\n\n"
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

    def _next_command(self, learned: bool, ahead: bool) -> str:
        """Choose the one thing to try, by whether the loss fell and whether the views are ahead of words."""
        config, trees = self.config, self.trees
        parsers, sentences = parsers_of(trees.identity), len(trees)
        # The encoder in the package reads its own parsers' trees, which are of English.
        builtin_reads = len(parsers) == len(KINDS) and not own_parsers(parsers)
        if not learned and builtin_reads:
            adapted = config.output / "builtin-adapted"
            command = f"multiview.readout {BUILTIN} {trees.folder} --output {adapted}"
            return f"adapt the encoder in the package to this text instead: python -m {command}"
        if learned and ahead:
            return f"one vector made for cosine: python -m multiview.readout {config.folder} {trees.folder}"
        if learned and config.words_mode == "trained":
            name = f"{config.model_name}-fixed"
            own = BUILTIN_WORDS if builtin_reads else "FILE"
            vectors = own if config.vectors == NO_VECTORS else config.vectors
            fixed = replace(config, words="fixed", vectors=vectors, name=name)
            return f"start from words that know more than this text: {training_command(fixed)}"
        if sentences < ENOUGH or not builtin_reads:
            return f"train on more text than {sentences:,} sentences: python -m parsing.run umbc"
        command = f"multiview.search {BUILTIN} {trees.folder}"
        return f"the encoder in the package, without training: python -m {command}"


def own_parsers(parsers: Mapping[str, Any]) -> dict[str, str]:
    """Return names of the parsers, by annotation, that are not those in the package."""
    names = {need: str(identity.get("name", "?")) for need, identity in parsers.items()}
    return {need: name for need, name in names.items() if not name.startswith(BUILTIN)}


def combined_card(config: TrainConfig) -> str:
    """Return the README.md of a folder with both of the paper's configurations."""
    return (
        f"# {config.model_name}\n\nTwo models whose vectors are concatenated: `trained/` with trained word "
        "tables, `fixed/` with fixed pre-trained vectors. One reading of the 4800 dimensions of Simoulin & "
        f"Crabbé 2021 (2 models x 2 views); the paper does not say.\n\n    {training_command(config)}\n"
    )
