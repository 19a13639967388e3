"""Stores constants in fewer bytes; the C code decodes an array into scratch before its layer
runs.
"""
