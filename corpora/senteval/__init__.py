"""The tasks of SentEval and tasks of structure: their names, files and rows."""
