"""A service that clients of OpenAI's embeddings and of rerankers speak to (``python -m multiview.serve``)."""
