"""Integers that lie in float tensors, as NEMO, DORY and quantlab write them, become integers."""
