"""From kernels and a plan to a readable C project."""
