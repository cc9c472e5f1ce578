"""Judges whether two sentences say the same: a probability and reasons, without a transformer, for English.

    from multiview.judge import Judge

    judge = Judge.load()
    print(judge("How do I enable 2FA?", "How do I disable 2FA?"))

The two sentences are parsed, features of the pair are computed from what the sentences have in common
(:data:`FEATURES`), and a logistic regression of these features gives the probability.
"""

from multiview.judge.judge import Judge as Judge
from multiview.judge.judge import Judgement as Judgement
from multiview.judge.weights import FEATURES as FEATURES
