"""Tree caches to sentence encoders: contrastive training, embeddings, baselines."""
