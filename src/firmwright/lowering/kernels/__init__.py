"""Computes operators on integers; each file has one family of operators."""
