"""Runs firmware on a connected board: flashes it, resets it, and uses its console."""
