"""Train encoders of several views of a sentence by contrast with its neighbours.

    python -m multiview.train --views dep,const --trees runs/trees/pydocs
    python -m multiview.train --preset paper --vectors glove.840B.300d.txt
    torchrun --nproc-per-node 4 -m multiview.train --preset gpu --views dep,const

Simoulin & Crabbé 2021, sections 3 and 4. In: a tree cache written by ``python -m parsing.run``. Out:
``runs/models/NAME/``: the model (best by neighbour retrieval on the validation set, the untrained start
included), ``train.json`` (this run's configuration; ``--config`` repeats it), ``log.jsonl``, TensorBoard
events, ``curves.png`` and checkpoints. The same command resumes an interrupted run. Exit codes: 0 done; 2 bad
input, or a loss that is not finite; 130 or 143 stopped by Ctrl-C or SIGTERM after writing a checkpoint; 1 a
bug.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
from typing import TYPE_CHECKING

from corpora.support.cli import Command, log_to
from corpora.support.config import config_to_json
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import LOCK, locked, read_json, sweep, write_json
from multiview import paper
from multiview.config import TrainConfig, differing_options
from multiview.defaults import defaults_from, read_config

if TYPE_CHECKING:
    from multiview.training.distributed import DistributedContext
    from multiview.training.trainer import Trainer
    from multiview.words.vectors import WordVectors
    from parsing.cache.reader import TreeCache


def main(config: TrainConfig) -> int:
    """Train one model, or two in one folder (``--words both``)."""
    follows_paper = config.preset in paper.PRESETS
    if follows_paper:
        if config.dry_run:
            print(paper.summary(config))
        paper.refuse_incomplete(config)
    config.check()
    import torch

    from multiview.encoders.registry import view_class
    from multiview.folder.card import combined_card
    from multiview.folder.files import save_members
    from multiview.folder.names import model_folder
    from multiview.training.data import open_trees
    from multiview.training.distributed import DistributedContext

    for view in config.view_list:  # a misspelt one is refused before a corpus is read
        if view_class(view).weightless:
            raise UserError(f"--views {config.views}: {view} has nothing to train")
    wants_cuda = config.device.startswith("cuda") or (config.device == "auto" and torch.cuda.is_available())
    distributed = DistributedContext.from_environment(wants_cuda)
    with contextlib.ExitStack() as held:
        held.callback(distributed.close)
        cache = open_trees(config.trees)
        if follows_paper and distributed.first:
            if not config.dry_run:
                print(paper.summary(config))
            print(
                "".join(f"deviates   {text}\n" for text in paper.data_deviations(cache)), end="", flush=True
            )
        if distributed.first and not config.dry_run:
            held.enter_context(locked(config.folder, option="--name or --output"))
        if config.words != "both":
            return train_one(config, cache, distributed)
        for words in ("trained", "fixed"):
            init = None if config.init is None else model_folder(config.init) / words
            part = dataclasses.replace(config, words=words, init=init, output=config.folder, name=words)
            code = train_one(part, cache, distributed)
            if code:
                return code
            if config.dry_run:
                print("and again    the model of fixed vectors: the same encoders, no tables, less time")
                return 0
        if distributed.first:
            save_members(config.folder, ["trained", "fixed"], card=combined_card(config))
            print(f"model  {config.folder} (both configurations, concatenated)")
        return 0


def train_one(config: TrainConfig, cache: TreeCache, distributed: DistributedContext) -> int:
    """Train one model, or resume an interrupted run."""
    from multiview.training.dry_run import dry_run
    from multiview.training.trainer import Trainer
    from multiview.words.sources.spec import open_new_words
    from parsing.networks.threads import torch_threads

    config = dataclasses.replace(config, preset=config.nearest_preset)
    # Made before the folder is claimed: it may refuse the command, and the corrected one needs the folder.
    trainer = Trainer(config, cache, distributed)
    if config.dry_run:
        with torch_threads(trainer.position.threads):
            return dry_run(trainer)
    # Opened now, since bad vectors would be found only after hours of training.
    expands = config.vocabulary.expand > 0 and config.words != "fixed" and distributed.first
    new_words = open_new_words(config, cache) if expands else None
    if distributed.first:
        _claim_folder(config, str(cache.identity.get("content_sha256", "")))
    distributed.barrier()
    logger = log_to(config.folder)
    logger.setLevel("INFO" if distributed.first else "ERROR")
    found = "" if config.trees else ", the only tree cache under runs/trees"
    logger.info("trees      %s (%s sentences%s)", cache.folder, f"{len(cache):,}", found)
    if trainer.resume() and not trainer.position.finished:
        logger.info("resuming %s at step %d", config.folder, trainer.position.step)
    with torch_threads(trainer.position.threads):
        code = trainer.run(keep_model)
    if distributed.first:
        if not code and new_words is not None:
            _expand(config, new_words)
        _finish(trainer)
    return code


def _expand(config: TrainConfig, new_words: WordVectors) -> None:
    """Give a finished model of trained words its larger vocabulary, once."""
    from multiview.folder.expanded import expand_into

    if read_json(config.folder / "config.json")["words"]["expanded"]:
        return
    expand_into(config.folder, config.folder, new_words)
    added = read_json(config.folder / "config.json")["words"]["expanded"]
    print(f"expanded   {added:,} words of {config.vectors}")


def keep_model(trainer: Trainer) -> None:
    """Write the model folder, with the trainer's current weights."""
    from multiview.folder.card import model_card
    from multiview.folder.files import Member, parsers_of, save_member

    identity = trainer.cache.identity
    reading = trainer.network.model_reading
    member = Member(trainer.network, parsers_of(identity), identity.get("corpus") or {}, reading)
    training = {
        "config": config_to_json(trainer.config),
        "trees": str(identity.get("content_sha256", "")),
        "step": trainer.position.step,
        "sentences": trainer.position.sentences,
        "best": trainer.position.best,
        "untrained": trainer.position.untrained,
        "words": trainer.network.words.origin,
    }
    card = model_card(trainer.config, member, training)
    save_member(trainer.config.folder, member, card=card, training=training)


def _claim_folder(config: TrainConfig, trees: str) -> None:
    """Start a new model folder, or check that the existing one holds this same run.

    Raises:
        UserError: the folder holds a run with other options or another cache, or --fresh would delete
            something that is not a run.
    """
    from multiview.folder.files import model_sha256
    from multiview.folder.names import model_folder

    folder, record = config.folder, config.folder / "train.json"
    if config.fresh and folder.exists():
        found = [path for path in folder.iterdir() if path.name != LOCK]  # this run holds the lock
        if found and not record.exists():
            raise UserError(
                f"--fresh: {folder} holds no training run; delete it yourself or give another --name"
            )
        for path in found:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    sweep(folder)
    content = {"trees": trees, "init": "" if config.init is None else model_sha256(model_folder(config.init))}
    if not record.exists():
        write_json(record, {"config": config_to_json(config), **content})
        return
    changed = differing_options(read_config(record), config)
    stored = read_json(record)
    for name, what in (("trees", "the tree cache"), ("init", f"--init {config.init}")):
        if stored.get(name, "") != content[name]:
            changed.append(f"the content of {what}")
    if changed:
        raise UserError(
            f"{folder}: holds a run with other options ({'; '.join(changed)}); choose another --name, "
            "or --fresh to delete it"
        )


def _finish(trainer: Trainer) -> None:
    """Draw the curves and print a summary."""
    from multiview.folder.files import TIME
    from multiview.training.log import plot_curves

    position, folder = trainer.position, trainer.config.folder
    write_json(folder / TIME, {"seconds": position.seconds})
    try:
        plot_curves(folder)
    except MissingExtraError as error:
        print(f"no curves.png: {error}", file=sys.stderr)
    rate = position.sentences / max(position.seconds, 1e-9)
    print(f"model      {folder}")
    print(f"state      {position.finished or 'interrupted; the same command resumes'}")
    print(f"trained    {position.step} steps, {position.sentences} sentences, {position.seconds:.0f} s")
    print(f"speed      {rate:.0f} sentences/s")
    start = trainer.config.start_name
    for name, metrics in ((start, position.untrained), ("best", position.best)):
        if metrics.get("anchors"):
            print(f"{name:<10} {_one_line(metrics)}")
    if position.best.get("step") == 0:
        print(f"kept       the {start} weights: on the validation set, training never beat them")


def _one_line(metrics: dict[str, float]) -> str:
    pairs = "  ".join(f"{k} {v:.4f}" for k, v in metrics.items() if k.startswith("accuracy"))
    return (
        f"recall@1 {metrics['recall@1']:.4f}  loss {metrics['loss']:.3f}  {pairs}  (step {metrics['step']}, "
        f"{metrics['anchors']} anchors in the validation set)"
    )


cli = Command(
    TrainConfig,
    main,
    "multiview.train",
    (__doc__ or "").split("\n\n")[0],
    kept="checkpoints are kept; the same command resumes",
    defaults=defaults_from,
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
