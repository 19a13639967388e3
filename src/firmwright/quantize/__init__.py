"""Quantizes networks after training: calibration, quantization parameters, QDQ graphs, accuracy."""
