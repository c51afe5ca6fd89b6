"""Fuzzing: what reads files and texts of strangers, under any bytes. `python tests/fuzz/run.py` runs it at length."""
