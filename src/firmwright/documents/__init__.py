"""YAML files of a user's: their text with places, and what a schema says of them."""
