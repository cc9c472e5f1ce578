"""The README.md of a model folder."""

from __future__ import annotations

import shlex
from typing import Any

from multiview.config import TrainConfig, options_of, preset
from multiview.encoders.registry import plugins_of
from multiview.folder.files import Member


def training_command(config: TrainConfig) -> str:
    """A short command line that gives this configuration: a preset and the options that differ."""
    defaults = options_of(preset(config.preset))
    words = [word for module in plugins_of(config.view_list) for word in ("--plugin", module)]
    words += ["--preset", config.preset]
    for name, value in options_of(config).items():
        if name not in ("preset", "dry-run") and value != defaults[name]:
            words += [f"--{name}", str(value)]
    return f"python -m multiview.train {shlex.join(words)}"


def model_card(config: TrainConfig, member: Member, training: dict[str, Any]) -> str:
    """The README.md of one model: how it was trained, its metrics, its limits."""
    network, words, step = member.network, member.network.words, training["step"]
    start, best = training["untrained"], training["best"]
    kept = f"The weights are those of step {step}, which had seen {training['sentences']:,} sentences."
    if not step:
        kept = "The weights are those of the start: no validation since was better. Training did not help."
    text = (
        f"# {config.model_name}\n\n"
        f"Sentence encoder of {len(network.views)} views ({', '.join(network.views)}), "
        f"{network.widths[0]} dimensions each, concatenated; {len(words.vocabulary)} words, {words.mode}"
        f"{words.origin and f', {words.origin}'}.\n\n"
        + "".join(f"    import {module}\n" for module in plugins_of(network.views))
        + "    from multiview.model import MultiViewEncoder\n"
        f'    MultiViewEncoder.load("{config.folder}").encode(["A sentence."])\n\n'
        f"## Training\n\n    {training_command(config)}\n\n"
        f"Corpus: {member.corpus.get('name', 'unknown')}; tree cache content {training['trees'][:16]}. "
        f"{kept} The configuration is in config.json.\n\n"
    )
    if config.objective.teacher is not None:
        text += (
            "The views also learned from a sentence encoder's vectors of the corpus, "
            f"`{config.objective.teacher}`; what that encoder was trained on counts for this model too.\n\n"
        )
    for need, identity in sorted(member.parsers.items()):
        text += f"- {need} trees of {identity.get('name', '?')} {identity.get('version', '')}\n"
    for name, values in (("start", start), (f"step {step}", best))[: 2 if step else 1]:
        if values.get("anchors"):
            text += f"- {name}: validation loss {values['loss']:.4f}, recall@1 {values['recall@1']:.4f}\n"
    return (
        f"{text}\nrecall@1 is the fraction of sentences of the same corpus whose nearest of 400 by cosine is "
        "the sentence before or after it; other text, other languages and single words are untested.\n"
    )


def combined_card(config: TrainConfig) -> str:
    """The README.md of a folder with both of the paper's configurations."""
    return (
        f"# {config.model_name}\n\nTwo models whose vectors are concatenated: `trained/` with trained word "
        "tables, `fixed/` with fixed pre-trained vectors. One reading of the 4800 dimensions of Simoulin & "
        f"Crabbé 2021 (2 models x 2 views); the paper does not say.\n\n    {training_command(config)}\n"
    )
