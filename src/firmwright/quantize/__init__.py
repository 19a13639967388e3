"""Static post-training quantization: calibration, grids, QDQ graphs, and what they cost."""
