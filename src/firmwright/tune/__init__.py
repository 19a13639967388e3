"""Searches for the fastest variants of a network's layers."""
