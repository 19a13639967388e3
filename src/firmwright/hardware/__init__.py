"""Runs firmware on a board at hand: it is flashed and reset, and its console is talked to."""
