"""Score every layer and pooling of encoders on SentEval's tasks (Ma et al. 2019, Tables 1 and 2, Figure 1).

    python -m studies.layers bert-base-uncased --data data/senteval
    python -m studies.layers MODEL MODEL-AFTER-NLI --concatenate -1,-12 -1,-6 --limit 2000
    python -m studies.layers BERT --encoders glove.840B.300d.txt use.npz all-MiniLM-L6-v2 --mlp 50
    python -m studies.layers BERT BERT-MNLI BERT-SNLI --encoders GLOVE USE INFERSENT --preset paper

One forward pass over the sentences gives the vectors of all layers and poolings. Vectors are written to disk
when they are computed, and the score of each task, layer and pooling is kept, so that the same command
resumes a study that was killed.
"""

import sys

from studies.layers.config import LayersConfig
from studies.runner import command, run_study


def main(config: LayersConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.layers.evaluate import evaluate

    return run_study(config, evaluate, inputs=[*config.backbones, *config.encoders])


cli = command(LayersConfig, main, "studies.layers", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
