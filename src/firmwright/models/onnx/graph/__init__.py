"""Simplifies ONNX graphs before the import.

Nodes that do not depend on values of the inputs are evaluated. Operators that TVM lacks or computes
incorrectly are rewritten.
"""
