"""Converts integers in float tensors, as NEMO, DORY and quantlab write them, to integers."""
