"""Tree caches to sentence encoders: contrastive training, embeddings, baselines."""

from corpora import __version__ as __version__
