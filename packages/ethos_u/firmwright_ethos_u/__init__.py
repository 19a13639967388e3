"""Compiles networks for Arm Ethos-U with Vela, and simulates the command streams."""
