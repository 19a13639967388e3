"""firmwright turns one YAML recipe into one reproducible firmware bundle."""

__version__ = "0.1.0"
