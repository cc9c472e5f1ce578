"""Ask analogies of words, phrases and sentences in one vector space (UNI: Li & Zhao 2021).

    python -m studies.analogies MODEL [A+B ...]
    python -m studies.analogies --preset paper

The questions are in the package; docs/papers/uni.md says what of them is UNI's. The report has UNI's Tables 4
and 6 and its Figures 1 to 4. Models are named as in ``senteval_runner.run``.
"""

import sys

from studies.analogies.config import AnalogiesConfig
from studies.runner import command, run_study


def main(config: AnalogiesConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.analogies.score import score

    return run_study(config, score, inputs=config.models)


cli = command(AnalogiesConfig, main, "studies.analogies", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
