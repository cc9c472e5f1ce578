"""``--dry-run`` of a study: tasks, rows, cells, disk space and encoding time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corpora.senteval.files import TaskData
from corpora.support.dry_run import Work, dry_run_text, rate
from senteval_runner.vectors.dry_run import parameter_count, sample_parts
from studies.layers.config import LayersConfig
from studies.layers.subject import Subject

SAMPLE = 128


def dry_run(
    config: LayersConfig,
    subjects: Sequence[Subject],
    tasks: Mapping[str, TaskData | str],
    texts: Sequence[str],
) -> str:
    """The text of a dry run; nothing is stored.

    Args:
        config: options of the command.
        subjects: the backbones with their stores.
        tasks: data by task name, or why a task is skipped.
        texts: the distinct sentences of all tasks.
    """
    facts = {
        name: f"skipped: {task}"
        if isinstance(task, str)
        else "  ".join(f"{split} {len(part):,}" for split, part in task.splits.items())
        for name, task in tasks.items()
    }
    found = sum(not isinstance(task, str) for task in tasks.values())
    facts["sentences"] = f"{len(texts):,} different ones"
    work, size = [], 0
    for subject in subjects:
        backbone, name = subject.backbone, subject.studied.name
        missing = subject.store.missing(texts)
        facts[name] = f"{len(subject.units)} units x {found} tasks = {len(subject.units) * found} cells"
        if missing:
            columns, _, dim = backbone.encode([missing[0].split(" ")])[0].shape
            size += len(missing) * columns * dim * subject.store.dtype.itemsize
        parts = sample_parts([text.split(" ") for text in missing], SAMPLE)

        def encode(part: Sequence[list[str]], subject: Subject = subject) -> int:
            return int(subject.backbone.encode(part)[0].shape[1])

        if parts:
            work.append(Work(name=name, units=len(missing), unit="sentences", per_s=rate(encode, parts)))
    cells = sum(len(subject.units) for subject in subjects) * found
    return dry_run_text(
        config,
        work=work,
        facts=facts,
        parameters={s.studied.name: count for s in subjects if (count := parameter_count(s.backbone))},
        disk_bytes=size,
        not_counted=f"classifiers ({cells} cells at most)",
    )
