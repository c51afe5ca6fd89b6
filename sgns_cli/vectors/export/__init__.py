"""Vectors in the formats of other programs. A module for each kind of format; formats.py is the way in."""
