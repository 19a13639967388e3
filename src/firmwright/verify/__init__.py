"""Run networks on samples and compare them with a reference."""
