"""Runs the stages. Each module reads earlier results and writes the results of one stage."""
