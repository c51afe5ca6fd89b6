"""Matrices in, answers out: neighbours, input embeddings. Numpy only."""
