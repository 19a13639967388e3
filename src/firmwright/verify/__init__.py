"""Run firmware on samples and compare it with the model's reference runtime."""
