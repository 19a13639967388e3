"""What every stage shares: tensors, operators, regions, kernels, records; it decides nothing."""
