"""Judges whether two sentences say the same: a probability and reasons, without a transformer, for English.

    from multiview.judge import Judge

    judge = Judge.load()
    print(judge("How do I enable 2FA?", "How do I disable 2FA?"))

The two sentences are parsed, features of the pair are computed from what the sentences have in common
(:data:`FEATURES`), and a logistic regression of these features gives the probability. The way of a pair:

1. ``one_form.py`` and ``numbers_in_words.py`` rewrite its texts; ``long_texts.py`` shortens long ones.
2. ``pair_reading.py`` parses them: ``facts.py`` has their words and arcs, ``comparison.py`` what they share.
3. ``pair_features.py`` has the features, and ``weights.py`` makes the probability of them.
4. ``limits.py`` bounds it by rules, such as those of ``contrasts.py``.
5. ``reasons.py`` says what differs, ``slots.py`` and ``similarity.py`` how alike the two are.

``judge.py`` does all this; ``checks.py`` and ``thresholds.py`` serve judges of one's own.
"""

from multiview.judge.judge import Judge as Judge
from multiview.judge.judge import Judgement as Judgement
from multiview.judge.weights import FEATURES as FEATURES
