"""Score every layer and pooling on every task, for EMP's tables and Figure 1.

Scores are a data frame in percent, with a row per backbone, layer and pooling, and a column per task. An
encoder that is not opened layer by layer has one row, with the layer "whole" and the pooling "own".
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from corpora.senteval.files import Split, TaskData, read_task
from corpora.senteval.tasks import TASKS, data_folder, expand_tasks, tasks_in
from multiview.names.constructors import encoder_of
from multiview.names.opened import distinct_names
from runtime.errors import UserError, extra
from senteval_runner.evaluation import data_hashes, evaluate_task
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Section, Table
from senteval_runner.report.tables import headline
from senteval_runner.towers.backbones import (
    OWN_POOLING,
    WHOLE_ENCODER,
    Backbone,
    Representation,
    TransformerBackbone,
    open_backbone,
    select_layers,
)
from studies.layers.config import LayersConfig
from studies.runner import Cell, Figures, StudyRun, read_published, score_table

with extra("report"):
    import pandas as pd

GROUPS = ("classification", "entailment", "surface", "syntactic", "semantic")
TASK_GROUPS = {"similarity": tasks_in("sts7"), **{group: tasks_in(group) for group in GROUPS}}
"""The tasks of EMP's six groups; the probing groups are those of Conneau et al. (2018).

Only EMP's appendix says in which group MRPC is. It cannot be similarity: calling all pairs of MRPC the same
is right for 66 %, which is about 86 % of the best score, but EMP's [SEP] has 13.0 over the group similarity.
Here MRPC is in a group with the other classifications of sentence pairs.
"""
AVERAGE = "average"
"""EMP's Average Score: the mean of the six groups, if none is missing."""
POOLING = "mean"
"""The pooling in tables by layer."""
SOURCE = "Ma et al. 2019, Universal Text Representation from BERT: An Empirical Study"
NOTE = (
    "Published rows are percentages of the best score among that paper's models; ours of the best in this "
    "report. The two scales differ where the models do."
)


def frame(scores: Mapping[tuple[str, str, str], Mapping[str, float]]) -> pd.DataFrame:
    """Return the data frame of scores by backbone, layer and pooling, with tasks in the order of groups."""
    tasks_in_order = [task for group in TASK_GROUPS.values() for task in group]
    tasks = [task for task in tasks_in_order if any(task in row for row in scores.values())]
    index = pd.MultiIndex.from_tuples(list(scores), names=("backbone", "layer", "pooling"))
    return pd.DataFrame([[row.get(task) for task in tasks] for row in scores.values()], index, tasks, float)


def normalise(scores: pd.DataFrame) -> pd.DataFrame:
    """Return scores in percent of each task's best score; tasks whose best is not positive are dropped."""
    best = scores.max()
    return 100 * scores.loc[:, best > 0] / best[best > 0]


def group_means(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the mean score of each group of tasks and, if there are all groups, their average.

    A row has no mean of a group if one of the group's tasks is missing in it.
    """
    groups = {name: scores.columns[scores.columns.isin(tasks)] for name, tasks in TASK_GROUPS.items()}
    means = {name: scores[tasks].mean(axis=1, skipna=False) for name, tasks in groups.items() if len(tasks)}
    table = pd.DataFrame(means, index=scores.index)
    if len(means) == len(TASK_GROUPS):
        table[AVERAGE] = table.mean(axis=1, skipna=False)
    return table


def pooling_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the group means of each backbone and pooling, averaged over layers (EMP's Table 1).

    Embeddings, concatenated layers and encoders without layers are left out.
    """
    layers = scores.index.get_level_values("layer").str.fullmatch(r"-\d+")
    means = group_means(scores)[layers].groupby(level=["backbone", "pooling"], sort=False)
    return means.agg(lambda column: column.mean(skipna=False))


def layer_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the group means of layers with mean pooling, and of encoders without layers (EMP's Table 2)."""
    means = group_means(scores)
    return means[means.index.get_level_values("pooling").isin([POOLING, OWN_POOLING])].droplevel("pooling")


def difference(scores: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Return the scores of ``second`` minus those of ``first``, in the rows and tasks that both have."""
    after = scores.loc[second]
    change = (after - scores.loc[first].reindex(after.index)).dropna(how="all").dropna(axis=1, how="all")
    return pd.concat({f"{second} − {first}": change}, names=["backbone"])


def likeness(scores: pd.DataFrame) -> pd.DataFrame:
    """Return how alike the scores of each layer (rows) and each encoder without layers (columns) are.

    The measure is Pearson's r over tasks, three or more, of scores in percent of each task's best.
    """
    correlations = normalise(scores).T.corr(min_periods=3)
    pooling = scores.index.get_level_values("pooling")
    table = correlations.loc[pooling == POOLING, pooling == OWN_POOLING]
    table.columns = table.columns.get_level_values("backbone")
    return table.droplevel("pooling")


def page(scores: pd.DataFrame, mlp: pd.DataFrame, remarks: Sequence[str]) -> Page:
    """Return the report of the scores.

    It has EMP's Tables 1 and 2, raw and normalised, the differences between backbones and by a hidden layer,
    and how alike the layers are to other encoders. ``mlp`` are the scores of a classifier with a hidden
    layer, on the tasks that have one; ``remarks`` are notes for readers of the scores.
    """
    sections = [Section("Remarks", remarks)]
    if not len(scores):
        return Page("What the layers know", sections)
    share = normalise(scores)
    suffix = ", normalised per task by the best"
    tables = [
        _table("Poolings, mean over layers", pooling_table(scores)),
        _table(f"Poolings, mean over layers{suffix}", pooling_table(share), "poolings"),
        _table(f"Layers, {POOLING} pooling", layer_table(scores)),
        _table(f"Layers, {POOLING} pooling{suffix}", layer_table(share), "layers"),
    ]
    first, *following = scores.index.unique("backbone")
    for backbone in following:
        if len(change := difference(scores, first, backbone)):
            tables.append(_table(f"Difference in points, {POOLING} pooling", layer_table(change)))
    if len(mlp):
        gains = mlp - scores.reindex(mlp.index)[mlp.columns]
        tables.append(_table("Multi-layer perceptron minus logistic regression", layer_table(gains)))
    if (correlations := likeness(scores)).size:
        tables.append(_table("Correlation of scores over tasks with encoders taken whole", correlations))
    sections += [Section("By task group", tables), Section("Layers and tasks", list(heat_maps(scores)))]
    return Page("What the layers know", sections)


def _table(title: str, means: pd.DataFrame, paper: str = "") -> Table:
    """Return the table of a data frame; ``paper`` names the file of published rows below it, if any."""
    means = means.dropna(axis=1, how="all")
    numbers = means.astype(object).where(means.notna(), None)
    paper_rows = read_published(Path(__file__).with_name(f"published-{paper}.csv")) if paper else {}
    return score_table(
        list(map(str, means.index.names)),
        [Column(name, best="high") for name in means.columns],
        numbers.to_dict("index"),
        {tuple(name.split(", ", 1)): row for name, row in paper_rows.items()},
        title=title,
        notes=(NOTE,) if paper else (),
        quoted_source=f"Published, not computed here: {SOURCE}",
    )


def heat_maps(scores: pd.DataFrame) -> Iterator[Figure]:
    """Yield a heat map of each backbone with layers, and of its difference to the first (EMP's Figure 1)."""
    share = normalise(scores)
    first = scores.index[0][0]
    for name in share.index.unique("backbone"):
        if OWN_POOLING in share.loc[name].index.get_level_values("pooling"):
            continue
        yield _heat_map(f"{name}: % of each task's best", share.loc[name], diverging=False)
        change = difference(scores, first, name)
        if name != first and len(change):
            yield _heat_map(f"{name} − {first}", change.droplevel("backbone"), diverging=True)


def _heat_map(caption: str, values: pd.DataFrame, *, diverging: bool) -> Figure:
    """Return the heat map of layers (the top layer first) and tasks, with one panel per pooling."""
    layers = list(values.index.unique("layer"))[::-1]
    panels = {
        pooling: values.xs(pooling, level="pooling").reindex(layers).to_numpy()
        for pooling in values.index.unique("pooling")
    }
    tasks = [TASKS[task].short_name for task in values.columns]
    return plots.heat_map(panels, layers, tasks, diverging=diverging, caption=caption)


SEED = 1111
"""SentEval's seed of classifiers and folds, and that of the rows that --limit draws."""
STORAGE = "float16"
"""Type of stored vectors: half the disk space of float32."""
ROWS_PER_CLASS = 12
"""Rows that --limit keeps of a class at least, if it has as many, because cross-validation needs them."""


def evaluate(config: LayersConfig, run: StudyRun) -> Page:
    """Score every encoder on every task, and return the report."""
    names = expand_tasks(config.tasks)
    data = data_folder(config.data)
    backbones = open_backbones(config, run)
    protocols = [get_protocol(config.protocol)]
    remarks = [
        f"logistic regression, protocol {config.protocol}, seed {SEED}; vectors stored as {STORAGE}; mean "
        "and max with special tokens",
        "figures: accuracy; Pearson x 100 of SICK-R and STS-B; mean Spearman x 100 over subsets of STS12-16",
    ]
    if config.mlp:
        protocols.append(get_protocol(config.protocol, nhid=config.mlp))
        exceptions = ", ".join(name for name in names if not has_hidden_layer(name))
        remarks.append(f"multi-layer perceptron: {config.mlp} hidden units; {exceptions} have none")
    scores: dict[int, dict[tuple[str, str, str], dict[str, float]]] = {0: {}, config.mlp: {}}
    """Scores by hidden units of the classifier, (encoder, layers, pooling) and task."""
    for name, full_task in run.open_all({name: partial(read_task, name, data) for name in names}).items():
        task = full_task
        if config.limit:
            task = limit_rows(full_task, config.limit)
            counts = [
                f"{split} {len(task.splits[split]):,} of {len(rows):,}"
                for split, rows in full_task.splits.items()
            ]
            remarks.append(f"--limit, not comparable with the full task: {name}: {', '.join(counts)}")
        cells = task_cells(backbones, protocols, task, config.limit)
        for (backbone, choice, hidden_units), figures in run.compute(cells).items():
            scores[hidden_units].setdefault((backbone, *choice), {})[name] = figures["score"]
    remarks += [note for backbone in backbones for note in backbone.notes()]
    return page(frame(scores[0]), frame(scores[config.mlp] if config.mlp else {}), remarks)


def has_hidden_layer(name: str) -> bool:
    """Tell whether the classifier of a task can have a hidden layer.

    Tasks of cosines or regressions have no such classifier, and that of WordContent is always linear.
    """
    return TASKS[name].kind == "classes" and TASKS[name].scorer != "fixed_split_linear"


def task_cells(
    backbones: Sequence[Backbone], protocols: Sequence[Protocol], task: TaskData, limit: int | None
) -> dict[tuple[str, Representation, int], Cell]:
    """Return the cells of a task by encoder, layers and pooling, and hidden units of the classifier."""
    identity = [STORAGE, SEED, limit, data_hashes(task)]

    def score(backbone: Backbone, choice: Representation, protocol: Protocol, folder: Path) -> Figures:
        result = evaluate_task(backbone.encoder(choice), task, protocol, SEED)
        return {"score": headline(task.name, result.metrics), "dim": result.dim, "metrics": result.metrics}

    protocols = [protocol for protocol in protocols if not protocol.nhid or has_hidden_layer(task.name)]
    return {
        (backbone.name, choice, protocol.nhid): Cell(
            name=f"{backbone.name}: {' '.join(choice)}, {task.name}{', MLP' if protocol.nhid else ''}",
            identity=[*backbone.identity, *choice, dataclasses.asdict(protocol), *identity],
            compute=partial(score, backbone, choice, protocol),
        )
        for backbone, protocol in product(backbones, protocols)
        for choice in backbone.choices
    }


def open_backbones(config: LayersConfig, run: StudyRun) -> list[Backbone]:
    """Return the backbones, then the encoders without layers, under distinct names.

    Those that cannot be opened are left out of the study. Only the layers and poolings that the options name
    are computed and stored; ``top,bottom`` is ignored for a backbone with one layer. Raises UserError if a
    backbone lacks a layer or a pooling.
    """
    for text in config.concatenate:
        if "," not in text:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
    backbones = run.open_all({spec: partial(open_backbone, spec) for spec in config.backbones})
    encoders = run.open_all({spec: partial(encoder_of, spec) for spec in config.encoders})
    backbones |= {f"{spec} {WHOLE_ENCODER}": Backbone(each, "features") for spec, each in encoders.items()}
    names = distinct_names([backbone.name for backbone in backbones.values()], list(backbones))
    for name, backbone in zip(names, backbones.values(), strict=True):
        layers = list(backbone.layers)
        poolings = backbone.poolings
        if isinstance(backbone, TransformerBackbone):
            poolings = config.poolings or poolings
            groups = [text for text in config.concatenate if text != "top,bottom" or len(layers) > 2]
            layers += [select_layers(text, backbone.layers, name) for text in groups]
        backbone.name = name
        backbone.open([*product(dict.fromkeys(layers), dict.fromkeys(poolings))], config.cache, STORAGE)
    return list(backbones.values())


def limit_rows(task: TaskData, limit: int) -> TaskData:
    """Return a task with about ``limit`` random rows per split.

    Each class keeps its share, but at least :data:`ROWS_PER_CLASS` rows if it has as many.
    """
    splits = {}
    for name, split in task.splits.items():
        generator = np.random.RandomState(SEED)
        y = np.asarray(split.y)
        # The rows of each class or, in a task without classes, all rows.
        groups = [np.flatnonzero(y == label) for label in range(len(task.classes))] or [np.arange(len(y))]
        share = min(1, limit / len(y))
        kept_rows = []
        for group in groups:
            count = max(round(share * len(group)), ROWS_PER_CLASS)
            kept_rows.append(generator.permutation(group)[:count])
        rows = np.sort(np.concatenate(kept_rows)).tolist()  # in the file's order
        b = None if split.b is None else [split.b[row] for row in rows]
        splits[name] = Split(a=[split.a[row] for row in rows], b=b, y=[split.y[row] for row in rows])
    return dataclasses.replace(task, splits=splits)
