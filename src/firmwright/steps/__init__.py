"""Runs the stages; each module reads earlier results and writes the results of one stage."""
