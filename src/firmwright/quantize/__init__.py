"""Static post-training quantisation: calibration, grids, QDQ graphs, and what they cost."""
