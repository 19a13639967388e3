"""Runs networks on samples and compares the results with a reference."""
