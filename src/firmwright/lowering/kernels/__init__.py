"""Computes operators on integers; each file implements one family of operators."""
