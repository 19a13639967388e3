"""Imports and exports ONNX models."""
