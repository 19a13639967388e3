"""Runs firmware on the RTL of the core CV32E40P, which counts the clock cycles of real hardware.

The RTL is from the package ``pythondata-cpu-cv32e40p``. Verilator, a program of the system,
translates the RTL to C++.
"""
