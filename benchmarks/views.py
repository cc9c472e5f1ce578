"""Means over seeds of docs/views.csv, and differences paired by seed with Student's t, as lines of JSON.

    python -m benchmarks.views

A line for each text, rate and scale: of each system the mean of six tasks ± the standard deviation over
seeds, and how far it is ahead of SEQ+SEQ over the seeds that both have, with the 95 % interval of Student's
t; then the same by task. The last lines are how far trained systems are ahead of their own start, by task.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import sem, t

TABLE = Path(__file__).parents[1] / "docs/views.csv"
MEAN, REFERENCE, START = "mean of 6", "seq,seq", "start of "
SETTING = ["objective", "text", "words", "rate", "scale"]


def with_deviation(values: pd.Series) -> str:
    """Return mean ± standard deviation as text; of one seed the value."""
    return f"{values.mean():.2f}" + (f" ± {values.std():.2f}" if len(values) > 1 else "")


def with_interval(gains: pd.Series) -> str:
    """Return the mean and its 95 % interval over seeds (Student's t) as text; of one seed the mean."""
    mean, error = gains.mean(), sem(gains) if len(gains) > 1 else np.nan
    low, high = mean + np.array([-1, 1]) * t.ppf(0.975, max(len(gains) - 1, 1)) * error
    return f"{mean:.2f}" + (f" [{low:.2f}, {high:.2f}]" if len(gains) > 1 else "")


def main() -> None:
    """Print a line of JSON for each text, rate and scale."""
    table = pd.read_csv(TABLE, dtype={"rate": str}).fillna({"rate": "", "text": ""})
    tasks = [*table.loc[:, "MR":"SICKRelatedness"], MEAN]
    is_start = table["system"].str.startswith(START)
    starts = table[is_start].assign(system=table["system"].str.removeprefix(START))
    for setting, rows in table.groupby(SETTING, sort=False):
        scores = {name: part.set_index("seed")[tasks] for name, part in rows.groupby("system", sort=False)}
        line: dict[str, object] = {"benchmark": "views", "of": " ".join(filter(None, setting))}
        line["mean"] = {name: with_deviation(part[MEAN]) for name, part in scores.items()}
        gains = {
            name: (part - scores.get(REFERENCE, part.iloc[:0])).dropna() for name, part in scores.items()
        }
        line["ahead of seq,seq"] = {
            name: {task: with_interval(gain[task]) for task in tasks}
            for name, gain in gains.items()
            if name != REFERENCE and len(gain)
        }
        print(json.dumps(line))
    keys = ["objective", "text", "words", "scale", "system"]
    both = table[~is_start].merge(starts, on=[*keys, "seed"], suffixes=("", " of the start"))
    for names, rows in both.groupby(keys, sort=False):
        gains = {task: with_interval(rows[task] - rows[f"{task} of the start"]) for task in tasks}
        print(json.dumps({"benchmark": "views", "of": " ".join(names), "ahead of its start": gains}))


if __name__ == "__main__":
    main()
