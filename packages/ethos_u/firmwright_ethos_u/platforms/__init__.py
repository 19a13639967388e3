"""Contains the platforms with an Ethos-U; the entry point `firmwright.platforms` names it."""
