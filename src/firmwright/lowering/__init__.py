"""Lowers operators to C for CPU cores, by integer arithmetic, TIR, loops and text."""
