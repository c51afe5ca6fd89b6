"""Vectors as pictures: a map of tokens, the losses of a run. PNG by matplotlib, or a page that needs nothing."""
