"""Simplifies ONNX graphs before the import.

Nodes that do not depend on the values of inputs are evaluated. Operators that TVM lacks or computes
incorrectly are rewritten.
"""
