"""Writes a readable C project from kernels and a plan."""
