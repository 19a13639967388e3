"""Converts whole numbers in float tensors, as in NEMO, DORY and quantlab, to integers."""
