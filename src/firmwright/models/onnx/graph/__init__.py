"""ONNX graphs before the import.

What the inputs do not decide is evaluated; what TVM lacks or gets wrong is rewritten.
"""
