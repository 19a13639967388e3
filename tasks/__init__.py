"""Declares the stages of the pipeline."""
