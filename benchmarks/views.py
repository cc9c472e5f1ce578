"""Print means over seeds of docs/views.csv, and differences between systems, as lines of JSON.

    python -m benchmarks.views

There is a line for each text, learning rate and scale. It has for each system the mean of six tasks ± the
standard deviation over seeds, and the difference to SEQ+SEQ in the mean and in each task. Differences are
paired by seed, with the 95 % interval of Student's t. The last lines are the differences of trained systems
to the same systems before training, by task.
"""

import json
from pathlib import Path

import pandas as pd
from scipy.stats import sem, t

TABLE = Path(__file__).parents[1] / "docs/views.csv"
MEAN, REFERENCE, START = "mean of 6", "seq,seq", "start of "
SETTING = ["objective", "text", "words", "rate", "scale"]


def with_deviation(values: pd.Series) -> str:
    """Return mean ± standard deviation as text; for one seed the value alone."""
    return f"{values.mean():.2f}" + (f" ± {values.std():.2f}" if len(values) > 1 else "")


def with_interval(gains: pd.Series) -> str:
    """Return the mean and its 95 % interval over seeds as text; for one seed the value alone."""
    mean = gains.mean()
    if len(gains) == 1:
        return f"{mean:.2f}"
    low, high = t.interval(0.95, len(gains) - 1, mean, sem(gains))
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Print all lines."""
    table = pd.read_csv(TABLE, dtype={"rate": str}).fillna({"rate": "", "text": ""})
    tasks = [*table.loc[:, "MR":"SICKRelatedness"], MEAN]
    is_start = table["system"].str.startswith(START)
    starts = table[is_start].assign(system=table["system"].str.removeprefix(START))
    for setting, rows in table.groupby(SETTING, sort=False):
        scores = {name: part.set_index("seed")[tasks] for name, part in rows.groupby("system", sort=False)}
        line: dict[str, object] = {"benchmark": "views", "of": " ".join(filter(None, setting))}
        line["mean"] = {name: with_deviation(part[MEAN]) for name, part in scores.items()}
        ahead = {}
        for name, part in scores.items():
            gain = (part - scores.get(REFERENCE, part.iloc[:0])).dropna()
            if name != REFERENCE and len(gain):
                ahead[name] = {task: with_interval(gain[task]) for task in tasks}
        line["ahead of seq,seq"] = ahead
        print(json.dumps(line))
    keys = ["objective", "text", "words", "scale", "system"]
    both = table[~is_start].merge(starts, on=[*keys, "seed"], suffixes=("", " of the start"))
    for names, rows in both.groupby(keys, sort=False):
        gains = {task: with_interval(rows[task] - rows[f"{task} of the start"]) for task in tasks}
        print(json.dumps({"benchmark": "views", "of": " ".join(names), "ahead of its start": gains}))


if __name__ == "__main__":
    main()
