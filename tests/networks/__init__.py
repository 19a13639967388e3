"""Networks that tests build, and their firmware."""
