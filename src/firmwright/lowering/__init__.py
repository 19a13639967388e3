"""Lowers operators to C code for CPU cores."""
