"""Follow the SentEval protocol: splits, classifiers, regularisers, correlations."""
