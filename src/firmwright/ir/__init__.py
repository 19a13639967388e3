"""Defines the data that all stages share: tensors, operators, regions, kernels and records."""
