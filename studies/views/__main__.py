r"""Which pair of views learns the best sentence vectors (Simoulin & Crabbé 2021, Tables 1 to 3)?

    python -m studies.views --trees runs/trees/umbc --words both --vectors glove.840B.300d.txt
    python -m studies.views --trees runs/trees/mine-50k runs/trees/mine-150k --words fixed \
        --vectors w2v.txt --case backoff --dim 256 --systems seq,seq dep,const --rates 5e-4 1.5e-3 \
        --passes 5 --validation 2000

The first line is the tables in full, their rows beside ours. Systems: the six pairs of {seq, dep, const},
QuickThought's setting (seq,seq; dot score, one softmax, the sentence itself at score 0), their starts before
training (Table 3), the average of the words of dep,const, and of random ones. All have the preset's options
but for those given here; the report lists what differs from the paper's. Each rate is a row, and none is
chosen; of growing text give a cache of each size (``parsing.run --limit``). Every system is scored raw, as
the paper's were, and with each number at one scale over the training text.

``multiview.train`` and ``senteval_runner.run`` train and score; what is finished is not repeated, and other
``--tasks`` are added without training again. Before the first long training every pair is trained for one
step and scored on the smallest task: a pair that cannot be scored ends the study. ``--output`` gets rows.csv,
every score with its seed and the commit that made it; the report lies in a folder below it by default.
"""

import sys

from studies.runner import command, run_study
from studies.views.config import ViewsConfig


def main(config: ViewsConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.views.run import compare, print_plan

    return print_plan(config) if config.dry_run else run_study(config, compare)


cli = command(ViewsConfig, main, "studies.views", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
