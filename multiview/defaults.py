"""Where the defaults of a training run come from: a preset, an earlier run, a model to go on from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from corpora.support.config import config_from_json
from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig, preset


def read_config(path: Path) -> TrainConfig:
    """The configuration in a run's ``train.json``.

    Raises:
        UserError: no such file, or it is not the configuration of a training run.
    """
    stored = read_json(path)
    if not isinstance(stored, dict) or not isinstance(stored.get("config"), dict):
        raise UserError(f"{path}: not the train.json of a training run")
    return config_from_json(TrainConfig, stored["config"], where=path)


def defaults_from(args: Sequence[str]) -> TrainConfig:
    """The defaults that ``--preset NAME`` or ``--config FILE``, and ``--init MODEL``, ask for."""
    chosen = {"--preset": "laptop", "--config": "", "--init": ""}
    for index, arg in enumerate(args):
        name, _, value = arg.partition("=")
        if name in chosen:
            chosen[name] = value or (args[index + 1] if index + 1 < len(args) else "")
    config = read_config(Path(chosen["--config"])) if chosen["--config"] else preset(chosen["--preset"])
    return like_model(config, chosen["--init"]) if chosen["--init"] else config


def like_model(config: TrainConfig, init: str) -> TrainConfig:
    """A configuration with the views, encoders and kind of words of a model, so that it can go on.

    Raises:
        UserError: no model there.
    """
    from multiview.encoders.registry import trained_views
    from multiview.folder.files import member_names, member_record
    from multiview.folder.names import model_folder

    folder = model_folder(init)
    names = member_names(folder)
    record = member_record(folder / names[0])
    return dataclasses.replace(
        config,
        views=",".join(trained_views(record.views)),
        words=record.words.mode if len(names) == 1 else "both",
        encoder=record.encoder,
        vocabulary=dataclasses.replace(
            config.vocabulary, case=record.words.case, buckets=record.words.buckets
        ),
    )
