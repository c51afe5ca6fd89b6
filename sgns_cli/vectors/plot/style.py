"""Colours of pictures and pages, on light and on dark."""

RAMP = ["#bccbe0", "#7fa3d1", "#3b6db5", "#152f6e"]  # from rare to frequent, on white
RAMP_DARK = ["#2f4468", "#4876b8", "#86b0ea", "#e0ecff"]
UNKNOWN = "#9aa0a6"  # of a mean, which has no count
QUERY_COLOURS = ["#d9480f", "#2b8a3e", "#c2255c", "#7048e8", "#b08900", "#0b7285", "#a8549a", "#7a5548"]
QUERY_COLOURS_DARK = ["#ff8a4c", "#62d17a", "#ff6f9f", "#ab93ff", "#f2c94c", "#4fd0e6", "#e59ad8", "#cfa593"]
INK, FAINT, PAPER, GROUND = "#1c2430", "#6b7480", "#ffffff", "#f7f8fa"
TRAINING, HELD_OUT, RATE = "#3b6db5", "#d9480f", "#7b8490"
TRAINING_DARK, HELD_OUT_DARK, RATE_DARK = "#86b0ea", "#ff8a4c", "#8a919b"
