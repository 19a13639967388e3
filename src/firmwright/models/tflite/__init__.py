"""TFLite models."""
