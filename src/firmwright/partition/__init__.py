"""Cuts a QDQ module into regions, each on one device, and records the reason for each choice."""
