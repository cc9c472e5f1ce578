"""The way from the name of an encoder, such as ``runs/models/mine+bag:random``, to vectors.

1. ``grammar.py``: ``parse_names`` checks a name once, and returns a ``Name`` for each encoder of ``A+B``.
2. ``constructors.py``: a function for each prefix returns the encoder of a ``Name`` (``encoder.py``). It is
   loaded when it encodes its first sentence.
3. ``opened.py``: ``open_encoder`` does both, and concatenates the vectors of several encoders. If they are to
   be kept, ``store.py`` wraps each encoder, so that each sentence is encoded once.

``options.py`` holds the command-line options that give a name.
"""
