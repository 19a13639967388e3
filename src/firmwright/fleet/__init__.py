"""Many recipes on many workers: the matrix, the workers, and what came out of all of it."""
