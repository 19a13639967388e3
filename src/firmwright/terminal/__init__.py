"""What a build shows: stages, progress, and what came out."""
