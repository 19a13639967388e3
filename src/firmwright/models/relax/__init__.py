"""Imports Relax modules that a user's Python function returns."""
