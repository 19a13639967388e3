"""Computes boxes from a network's outputs: data for C templates, reference, drawing."""
