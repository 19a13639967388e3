"""What each stage does: read the results of earlier ones, compute, write its own."""
