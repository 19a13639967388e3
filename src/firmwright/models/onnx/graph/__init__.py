"""Simplifies ONNX graphs before the import.

Nodes that do not depend on values of inputs are evaluated. Operators that TVM does not have or
computes incorrectly are rewritten.
"""
