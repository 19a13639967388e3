"""Python of the user's: where it is imported from, and how its mistakes are told."""
