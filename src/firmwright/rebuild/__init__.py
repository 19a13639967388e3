"""Builds that are compared: with a bundle, with a revision, or with a second build."""
