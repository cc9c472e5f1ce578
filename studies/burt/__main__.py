r"""Train BURT: files in, an ordinary sentence-transformers folder out.

    python -m studies.burt --output runs/burt/bert --backbone bert-base-uncased --nli train.jsonl \
        --ppdb ppdb-2.0-s-phrasal.gz
    python -m studies.burt --output runs/burt/paper --preset paper --nli ... --nli-dev ... --ppdb ...
    python -m studies.burt --output runs/burt/ablation --ablation negatives --backbone ... --nli ...

The output folder holds the model, which ``SentenceTransformer(folder)`` loads, the weights of its heads in
``heads.safetensors``, and the report. Ablations with the same output train the full model once.

Source: Li & Zhao 2020 (BURT); learning rate and epochs are those of Li & Zhao 2021 (UNI).
"""

import sys

from studies.burt.config import BurtConfig
from studies.runner import command, run_study


def main(config: BurtConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.burt.train import train_all

    return run_study(config, train_all)


cli = command(BurtConfig, main, "studies.burt", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
