"""Tree caches to sentence encoders: contrastive training, embeddings, baselines."""

from runtime import __version__ as __version__
