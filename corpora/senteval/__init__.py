"""The SentEval tasks: their files, their rows, and all their sentences as one corpus."""
