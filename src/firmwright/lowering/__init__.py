"""Lowers operators to C for a core that runs C: integer arithmetic, TIR, loops, text."""
