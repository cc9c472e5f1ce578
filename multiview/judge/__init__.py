"""Judges whether two sentences say the same: a probability and reasons, without a transformer, for English.

    from multiview.judge import Judge

    judge = Judge.load()
    print(judge("How do I enable 2FA?", "How do I disable 2FA?"))

The two sentences are parsed, numbers of what they have in common are computed (:data:`NUMBERS`), and a
logistic regression of these numbers gives the probability.
"""

from multiview.judge.judge import Judge as Judge
from multiview.judge.judge import Judgement as Judgement
from multiview.judge.weights import NUMBERS as NUMBERS
