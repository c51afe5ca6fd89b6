"""sgns: train and query skip-gram-with-negative-sampling embeddings for the tokens that LLMs use."""

__version__ = "0.1.0"
