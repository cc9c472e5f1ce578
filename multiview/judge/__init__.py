"""Do two sentences say the same? A probability, and reasons, without a transformer. English only.

    from multiview.judge import Judge

    judge = Judge.load()
    print(judge("How do I enable 2FA?", "How do I disable 2FA?"))

The two sentences are parsed, what they have in common is counted (:data:`NUMBERS`), and a logistic regression
of these numbers gives the probability.
"""

from multiview.judge.judge import Judge as Judge
from multiview.judge.judge import Judgement as Judgement
from multiview.judge.weights import NUMBERS as NUMBERS
