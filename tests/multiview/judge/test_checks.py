"""The package's checks, and the fit that keeps them."""

from dataclasses import replace

import numpy as np

from multiview.judge import Judge
from multiview.judge.checks import MAX_LOST_CHECKS, Checks
from multiview.judge.weights import PULLS


def test_the_judge_in_the_package_knows_its_checks(judge: Judge) -> None:
    swap = "swap: The red team beat the blue team. | The blue team beat the red team."
    assert judge.broken_checks() == [swap]
    strict = replace(judge.weights, about={"threshold": {"threshold": 0.999}})
    assert Judge(strict, source=judge.source).broken_checks() == [swap], "whatever its own threshold is"


def test_a_stronger_pull_is_taken_where_checks_would_be_lost(judge: Judge) -> None:
    checks, start = Checks.read(judge.source), judge.weights
    features = np.tile(checks.features_nF, (8, 1))
    wrong = np.array([float(row[1] == "0" or row[0] == "itself") for row in checks.rows] * 8)
    own = start.fit_on(features, wrong)
    kept = checks.fit(start, features, wrong)
    known = checks.broken_by(start)
    assert len({*checks.broken_by(own)} - {*known}) > MAX_LOST_CHECKS and own.about["pull"] < PULLS[0]
    assert kept.about["pull"] > own.about["pull"]
    assert len(kept.about["broken checks"]) <= MAX_LOST_CHECKS or kept.about["pull"] == PULLS[0]
    set_pull = checks.fit(start, features, wrong, pull=own.about["pull"])
    assert set_pull.weight == own.weight and len(set_pull.about["broken checks"]) > MAX_LOST_CHECKS
