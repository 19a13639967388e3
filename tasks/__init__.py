"""doit task creators: one module a stage, files in, files out, nothing else."""
