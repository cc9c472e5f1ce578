"""What EMP (Ma et al. 2019) evaluates sentence by sentence: its models and settings as a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.support.errors import UserError
from corpora.support.presets import Need, refuse_missing
from studies.layers.config import LayersConfig

BERT = "bert-base-uncased"
"""BERT with twelve layers; that the paper's is uncased is our reading."""
NLI = "python -m studies.burt --objectives nli --nli"
"""How a BERT is fine-tuned on NLI here; the paper does not say how."""
ROLES: Sequence[tuple[str, str, str]] = (
    (BERT, "pre-trained BERT", f"huggingface.co/{BERT}"),
    (
        "runs/burt/bert-mnli",
        "BERT fine-tuned on MNLI",
        f"{NLI} multinli_1.0_train.jsonl, cims.nyu.edu/~sbowman/multinli",
    ),
    (
        "runs/burt/bert-snli",
        "BERT fine-tuned on SNLI",
        f"{NLI} snli_1.0_train.jsonl, nlp.stanford.edu/projects/snli",
    ),
)
"""The backbones of Table 2 in order: a name, what it is, where it comes from."""
OTHERS: Sequence[tuple[str, str, str]] = (
    ("data/glove.840B.300d.txt", "GloVe", "nlp.stanford.edu/projects/glove"),
    ("data/use.npz", "vectors of Universal Sentence Encoder", "tfhub.dev/google/universal-sentence-encoder"),
    ("data/infersent.npz", "vectors of InferSent", "github.com/facebookresearch/InferSent"),
)
"""The encoders of Table 2 that are not BERT."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "preset": "paper",
        "backbones": tuple(name for name, _, _ in ROLES),
        "encoders": tuple(name for name, _, _ in OTHERS),
        "tasks": "all,SNLI",
        "mlp": 50,
    }
}
"""``paper``: what differs from the defaults, which are the paper's otherwise.

The width of the MLP is not stated; 50 is SentEval's own for its probing tasks.
"""


def refuse_missing_inputs(config: LayersConfig) -> None:
    """Refuse to begin without the paper's models and tasks.

    Raises:
        UserError: lists all that is not here.
    """
    from studies.finetune.backbone import is_here

    tasks = _missing_tasks(config)
    needs = [
        Need(
            option="--data FOLDER",
            what=f"SentEval's files of {', '.join(tasks)}",
            where="github.com/facebookresearch/SentEval, data/downstream/get_transfer_data.bash",
            here=not tasks,
        )
    ]
    for option, given, roles in (
        ("backbone", config.backbones, ROLES),
        ("--encoders", config.encoders, OTHERS),
    ):
        for place, (name, what, where) in enumerate(roles):
            spec = given[place] if place < len(given) else name
            here = place < len(given) and (Path(spec).exists() or (_is_name(spec) and is_here(spec)))
            needs.append(Need(option=f"{option} {spec}", what=what, where=where, here=here))
    refuse_missing("paper", needs)


def _is_name(spec: str) -> bool:
    """Whether a model hub may know it: no path, no file."""
    return spec.count("/") < 2 and not Path(spec).suffix and not spec.startswith(("runs/", "data/", "."))


def _missing_tasks(config: LayersConfig) -> list[str]:
    from corpora.senteval.files import has_files
    from senteval_runner.cells import data_folder
    from senteval_runner.running import expand_tasks

    tasks = expand_tasks(config.tasks)
    try:
        data = data_folder(config.data)
    except UserError:
        return tasks
    return [task for task in tasks if not has_files(task, data)]
