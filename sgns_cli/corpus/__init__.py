"""Text in, token ids on disk: sources, tokenizers, token folders."""
