"""Score every layer and pooling on every task, for EMP's tables and Figure 1.

Scores are a frame of one row per (backbone, layer, pooling) and one column per task, in percent. An encoder
taken whole, without its layers, has one row, (name, "whole", "own").
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from corpora.senteval.files import Split, TaskData, read_task
from corpora.senteval.tasks import TASKS, data_folder, expand_tasks, tasks_in
from multiview.names.opened import distinct_names
from multiview.names.recipe import recipe_of
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
"""The probing groups are those of Conneau et al. (2018). Which group holds MRPC is in EMP's appendix alone.

It cannot be similarity: the majority class has 66 % of MRPC, some 86 % of the best score, and EMP's [SEP] has
13.0 over the whole group. MRPC stands with the other classifications of sentence pairs.
"""
AVERAGE = "average"
"""EMP's Average Score: the mean of the six groups, where none is missing."""
POOLING = "mean"
"""Pooling of the tables by layer."""
SOURCE = "Ma et al. 2019, Universal Text Representation from BERT: An Empirical Study"
NOTE = (
    "Published rows are percentages of the best score among that paper's models; ours of the best in this "
    "report. The two scales differ where the models do."
)


def frame(scores: Mapping[tuple[str, str, str], Mapping[str, float]]) -> pd.DataFrame:
    """Make a table of scores by (backbone, layer, pooling) and task, columns in the order of the groups."""
    tasks_in_order = [task for group in TASK_GROUPS.values() for task in group]
    tasks = [task for task in tasks_in_order if any(task in row for row in scores.values())]
    index = pd.MultiIndex.from_tuples(list(scores), names=("backbone", "layer", "pooling"))
    return pd.DataFrame([[row.get(task) for task in tasks] for row in scores.values()], index, tasks, float)


def normalise(scores: pd.DataFrame) -> pd.DataFrame:
    """Divide by each task's best, in percent; tasks whose best is not positive are dropped."""
    best = scores.max()
    return 100 * scores.loc[:, best > 0] / best[best > 0]


def group_means(scores: pd.DataFrame) -> pd.DataFrame:
    """Average each group, and the groups; a mean is missing where a row lacks one of the group's tasks."""
    groups = {name: scores.columns[scores.columns.isin(tasks)] for name, tasks in TASK_GROUPS.items()}
    means = {name: scores[tasks].mean(axis=1, skipna=False) for name, tasks in groups.items() if len(tasks)}
    table = pd.DataFrame(means, index=scores.index)
    if len(means) == len(TASK_GROUPS):
        table[AVERAGE] = table.mean(axis=1, skipna=False)
    return table


def pooling_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Average the group means over layers, per backbone and pooling (EMP's Table 1).

    The embedding output, several layers side by side and encoders taken whole do not count.
    """
    layers = scores.index.get_level_values("layer").str.fullmatch(r"-\d+")
    means = group_means(scores)[layers].groupby(level=["backbone", "pooling"], sort=False)
    return means.agg(lambda column: column.mean(skipna=False))


def layer_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Take the group means of layers under mean pooling, and of whole encoders (EMP's Table 2)."""
    means = group_means(scores)
    return means[means.index.get_level_values("pooling").isin([POOLING, OWN_POOLING])].droplevel("pooling")


def difference(scores: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Subtract ``first`` from ``second``, in points, over the rows and tasks that both have."""
    after = scores.loc[second]
    change = (after - scores.loc[first].reindex(after.index)).dropna(how="all").dropna(axis=1, how="all")
    return pd.concat({f"{second} − {first}": change}, names=["backbone"])


def likeness(scores: pd.DataFrame) -> pd.DataFrame:
    """Correlate the scores over tasks of layers (rows) and of whole encoders (columns).

    The measure is Pearson's r of percentages of each task's best, over three tasks or more.
    """
    r = normalise(scores).T.corr(min_periods=3)
    pooling = scores.index.get_level_values("pooling")
    table = r.loc[pooling == POOLING, pooling == OWN_POOLING]
    table.columns = table.columns.get_level_values("backbone")
    return table.droplevel("pooling")


def page(scores: pd.DataFrame, mlp: pd.DataFrame, remarks: Sequence[str]) -> Page:
    """Make the report of scores, and of those of a perceptron (``mlp``) for the tasks that it changes.

    ``remarks`` is what a reader of the scores must know. EMP's Tables 1 and 2 stand raw and normalised; below
    them what fine-tuning and a hidden layer change, and the likeness to word vectors.
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
    """Print a frame with two labels; ``paper`` names the published rows that stand below."""
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
    """Draw each backbone with layers, and each comparison with the first (EMP's Figure 1)."""
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
    """Draw layers by tasks, the top layer first, one panel per pooling."""
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
"""Rows that --limit leaves a class at least, if it has them: the folds need as many."""


def evaluate(config: LayersConfig, run: StudyRun) -> Page:
    """Evaluate every encoder on every task."""
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
            counts = (f"{key} {len(task.splits[key]):,} of {len(y):,}" for key, y in full_task.splits.items())
            remarks.append(f"--limit, not comparable with the full task: {name}: {', '.join(counts)}")
        cells = task_cells(backbones, protocols, task, config.limit)
        for (backbone, choice, hidden_units), figures in run.compute(cells).items():
            scores[hidden_units].setdefault((backbone, *choice), {})[name] = figures["score"]
    remarks += [note for backbone in backbones for note in backbone.notes()]
    return page(frame(scores[0]), frame(scores[config.mlp] if config.mlp else {}), remarks)


def has_hidden_layer(name: str) -> bool:
    """Tell whether a hidden layer changes a task: not cosines, regressions and WordContent's classifier."""
    return TASKS[name].kind == "classes" and TASKS[name].scorer != "split_linear"


def task_cells(
    backbones: Sequence[Backbone], protocols: Sequence[Protocol], task: TaskData, limit: int | None
) -> dict[tuple[str, Representation, int], Cell]:
    """Make the cells of a task by encoder, layers and pooling, and hidden units of the classifier."""
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
    """Open all backbones, then the encoders taken whole, under distinct names; some may be left out.

    Only the layers and poolings that the options name are computed and stored; one that a backbone lacks is
    an error. ``top,bottom`` is ignored for a backbone with one layer.
    """
    for text in config.concatenate:
        if "," not in text:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
    backbones = run.open_all({spec: partial(open_backbone, spec) for spec in config.backbones})
    wholes = run.open_all({spec: partial(recipe_of, spec) for spec in config.encoders})
    backbones |= {f"{spec} {WHOLE_ENCODER}": Backbone(each, "features") for spec, each in wholes.items()}
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
    """Cut a task to about ``limit`` rows per split: each class keeps its share, twelve rows at least."""
    splits = {}
    for name, split in task.splits.items():
        rng = np.random.RandomState(SEED)
        y = np.asarray(split.y)
        groups = [np.flatnonzero(y == label) for label in range(len(task.classes))] or [np.arange(len(y))]
        quotas = [max(round(min(1, limit / len(y)) * len(group)), ROWS_PER_CLASS) for group in groups]
        kept_rows = [rng.permutation(group)[:quota] for group, quota in zip(groups, quotas, strict=True)]
        rows = np.sort(np.concatenate(kept_rows)).tolist()  # in the file's order
        b = None if split.b is None else [split.b[row] for row in rows]
        splits[name] = Split(a=[split.a[row] for row in rows], b=b, y=[split.y[row] for row in rows])
    return dataclasses.replace(task, splits=splits)
