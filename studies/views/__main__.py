r"""Which pair of views learns the best sentence vectors (Simoulin & Crabbé 2021, Tables 1 to 3)?

    python -m studies.views --trees runs/trees/umbc --words both --vectors glove.840B.300d.txt
    python -m studies.views --trees runs/trees/mine-50k runs/trees/mine-150k --words fixed \
        --vectors w2v.txt --case backoff --dim 256 --systems seq,seq dep,const --rates 5e-4 1.5e-3 \
        --passes 5 --validation 2000

The first command makes the whole tables, with the paper's rows below ours. The systems are the six pairs of
{seq, dep, const}, the setting of QuickThought (seq,seq with the dot score, one softmax, and score 0 for the
sentence itself), all of these before training (Table 3), the average of the words of dep,const, and the
average of random words. Options that are not given here are those of the preset; the report lists those that
differ from the paper's. Each learning rate has rows of its own, and none is chosen. To compare sizes of text,
give a tree cache of each size (``parsing.run --limit``). Every system is scored with its raw numbers, as in
the paper, and with each number brought to one scale over the training text.

Systems are trained by ``multiview.train`` and scored by ``senteval_runner.run``. Finished work is not
repeated, and ``--tasks`` can be added without training again. Before the first long training every pair is
trained for one step and scored on the smallest task; a pair that cannot be scored ends the study.
``--output`` gets rows.csv, which has every score with its seed and the commit of the code. The report is in a
folder below it.
"""

import sys

from studies.runner import command, run_study
from studies.views.config import ViewsConfig


def main(config: ViewsConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.views.run import compare, print_plan

    if config.dry_run:
        return print_plan(config)
    return run_study(config, compare, inputs=config.trees)


cli = command(ViewsConfig, main, "studies.views", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
