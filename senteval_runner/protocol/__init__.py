"""The SentEval protocol: splits, classifiers, regularisers, correlations."""
