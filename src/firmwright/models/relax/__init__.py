"""Imports Relax modules that a Python function returns."""
