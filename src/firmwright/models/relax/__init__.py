"""Relax modules as models: stored ones, and those that a Python function returns."""
