"""Runs firmware on the RTL of processor cores, and counts the clock cycles.

The RTL of each core in ``cores.py`` is from a package. Verilator, a program of the system,
translates the RTL to C++.
"""
