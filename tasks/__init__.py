"""Declares the stages of the pipeline, one per module."""
