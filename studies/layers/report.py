"""EMP's tables and Figure 1: scores of layers and poolings by task group, raw and in percent of the best.

Scores are a frame of one row per (backbone, layer, pooling) and one column per task, in percent; an encoder
taken whole has one row, (name, "whole", "own").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from corpora.senteval.tasks import STS_SUBSETS
from senteval_runner.report import plots
from senteval_runner.report.page import Cell, Column, Figure, Page, Section, Table
from senteval_runner.towers.backbones import OWN
from studies.kit import published

TASK_GROUPS: Mapping[str, tuple[str, ...]] = {
    "similarity": (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness"),
    "classification": ("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5"),
    "entailment": ("SICKEntailment", "SNLI", "MRPC"),
    "surface": ("Length", "WordContent"),
    "syntactic": ("Depth", "TopConstituents", "BigramShift"),
    "semantic": ("Tense", "SubjNumber", "ObjNumber", "OddManOut", "CoordinationInversion"),
}
"""The probing groups are those of Conneau et al. (2018). Which group holds MRPC is in EMP's appendix alone.

It cannot be similarity: the majority class has 66 % of MRPC, some 86 % of the best score, and EMP's [SEP] has
13.0 over the whole group. MRPC stands with the other classifications of sentence pairs.
"""
AVERAGE = "average"
"""EMP's Average Score: the mean of the six groups, where none is missing."""
POOLING = "mean"
"""Pooling of the tables by layer."""
SHORT = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R", "SICKEntailment": "SICK-E"}
SOURCE = "Ma et al. 2019, Universal Text Representation from BERT: An Empirical Study"
NOTE = (
    "Published rows are percentages of the best score among that paper's models; ours of the best in this "
    "report. The two scales differ where the models do."
)


def frame(scores: Mapping[tuple[str, str, str], Mapping[str, float]]) -> pd.DataFrame:
    """Make a table of scores by (backbone, layer, pooling) and task, columns in the order of the groups."""
    every = [task for group in TASK_GROUPS.values() for task in group]
    tasks = [task for task in every if any(task in row for row in scores.values())]
    index = pd.MultiIndex.from_tuples(list(scores), names=("backbone", "layer", "pooling"))
    return pd.DataFrame([[row.get(task) for task in tasks] for row in scores.values()], index, tasks, float)


def normalised(scores: pd.DataFrame) -> pd.DataFrame:
    """Divide by each task's best, in percent; tasks whose best is not positive are dropped."""
    best = scores.max()
    return 100 * scores.loc[:, best > 0] / best[best > 0]


def group_means(scores: pd.DataFrame) -> pd.DataFrame:
    """Average each group, and the groups; none where an evaluated task of the group is missing."""
    groups = {name: scores.columns[scores.columns.isin(tasks)] for name, tasks in TASK_GROUPS.items()}
    means = {name: scores[tasks].mean(axis=1, skipna=False) for name, tasks in groups.items() if len(tasks)}
    table = pd.DataFrame(means, index=scores.index)
    if len(means) == len(TASK_GROUPS):
        table[AVERAGE] = table.mean(axis=1, skipna=False)
    return table


def pooling_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Average the group means over layers, per backbone and pooling (EMP's Table 1).

    Neither the embedding output is averaged, nor several layers side by side, nor an encoder taken whole.
    """
    layers = scores.index.get_level_values("layer").str.fullmatch(r"-\d+")
    means = group_means(scores)[layers].groupby(level=["backbone", "pooling"], sort=False)
    return means.agg(lambda column: column.mean(skipna=False))


def layer_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Take the group means of layers under mean pooling, and of whole encoders (EMP's Table 2)."""
    means = group_means(scores)
    return means[means.index.get_level_values("pooling").isin([POOLING, OWN])].droplevel("pooling")


def difference(scores: pd.DataFrame, first: str, other: str) -> pd.DataFrame:
    """Subtract ``first`` from ``other``, in points, over the rows and tasks that both have."""
    after = scores.loc[other]
    change = (after - scores.loc[first].reindex(after.index)).dropna(how="all").dropna(axis=1, how="all")
    return pd.concat({f"{other} − {first}": change}, names=["backbone"])


def likeness(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare the profiles over tasks of layers (rows) with those of encoders taken whole (columns).

    The measure is Pearson's r of percentages of each task's best, over three tasks or more.
    """
    r = normalised(scores).T.corr(min_periods=3)
    pooling = scores.index.get_level_values("pooling")
    table = r.loc[pooling == POOLING, pooling == OWN]
    table.columns = table.columns.get_level_values("backbone")
    return table.droplevel("pooling")


def page(scores: pd.DataFrame, mlp: pd.DataFrame, remarks: Sequence[str]) -> Page:
    """Make the report of scores, and of those with a hidden layer (``mlp``) where that changes a task.

    ``remarks`` is what a reader of the scores must know. EMP's Tables 1 and 2 stand raw and normalised, below
    them what fine-tuning and a hidden layer change, and the likeness to word vectors.
    """
    sections = [Section("Remarks", remarks)]
    if not len(scores):
        return Page("What the layers know", sections)
    share, best = normalised(scores), ", normalised per task by the best"
    tables = [
        _table("Poolings, mean over layers", pooling_table(scores)),
        _table(f"Poolings, mean over layers{best}", pooling_table(share), "poolings"),
        _table(f"Layers, {POOLING} pooling", layer_table(scores)),
        _table(f"Layers, {POOLING} pooling{best}", layer_table(share), "layers"),
    ]
    first, *others = scores.index.unique("backbone")
    changes = [layer_table(change) for other in others if len(change := difference(scores, first, other))]
    tables += [_table(f"Difference in points, {POOLING} pooling", change) for change in changes]
    if len(mlp):
        gains = mlp - scores.reindex(mlp.index)[mlp.columns]
        tables.append(_table("Multi-layer perceptron minus logistic regression", layer_table(gains)))
    if (alike := likeness(scores)).size:
        tables.append(_table("Correlation of scores over tasks with encoders taken whole", alike))
    sections += [Section("By task group", tables), Section("Layers and tasks", list(heat_maps(scores)))]
    return Page("What the layers know", sections)


def _table(title: str, means: pd.DataFrame, paper: str = "") -> Table:
    """Print a frame with two labels; ``paper`` names the published rows that stand below."""
    means = means.dropna(axis=1, how="all")
    rows: list[list[Cell]] = [
        [*map(str, labels), *(None if pd.isna(value) else float(value) for value in row)]
        for labels, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    theirs = published(Path(__file__).with_name(f"published-{paper}.csv")) if paper else {}
    return Table(
        [*map(str, means.index.names), *(Column(name, best="high") for name in means.columns)],
        rows,
        title=title,
        notes=(NOTE,) if paper else (),
        quoted=[[*name.split(", ", 1), *map(row.get, means.columns)] for name, row in theirs.items()],
        quoted_title=f"Published, not computed here: {SOURCE}",
    )


def heat_maps(scores: pd.DataFrame) -> Iterator[Figure]:
    """Draw each backbone with layers, and each comparison with the first (EMP's Figure 1)."""
    share, (first, *_) = normalised(scores), scores.index.unique("backbone")
    for name in share.index.unique("backbone"):
        if OWN in share.loc[name].index.get_level_values("pooling"):
            continue
        yield _heat_map(f"{name}: % of each task's best", share.loc[name], diverging=False)
        change = difference(scores, first, name)
        if name != first and len(change):
            yield _heat_map(f"{name} − {first}", change.droplevel("backbone"), diverging=True)


def _heat_map(caption: str, values: pd.DataFrame, *, diverging: bool) -> Figure:
    """Draw layers by tasks, the top layer first, one panel per pooling."""
    layers = list(values.index.unique("layer"))[::-1]
    panels = {
        one: values.xs(one, level="pooling").reindex(layers).to_numpy()
        for one in values.index.unique("pooling")
    }
    return plots.heat_map(
        panels,
        layers,
        [SHORT.get(task, task) for task in values.columns],
        high=None if diverging else 100.0,
        diverging=diverging,
        label="points" if diverging else "% of the task's best",
        caption=caption,
    )
