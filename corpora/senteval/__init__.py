"""The SentEval tasks: their names and files, their rows, and tasks of structure beside them."""
