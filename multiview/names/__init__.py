"""The way from the name of an encoder, such as ``runs/models/mine+bag:random``, to vectors.

1. ``grammar.py``: ``parse_names`` checks a name once, and returns a ``Name`` for each encoder of ``A+B``.
2. ``recipe.py``: a function for each prefix returns the ``EncoderRecipe`` of a name; nothing is loaded yet.
3. ``vectors.py``: a ``Loader`` loads the encoder, and ``ComputedVectors`` encode sentences with it.
   ``store.py``: ``StoredVectors`` wrap them, so that each sentence is encoded once.
4. ``opened.py``: ``open_encoder`` does all this, and concatenates the vectors of several encoders.

``options.py`` holds the command-line options that give a name.
"""
