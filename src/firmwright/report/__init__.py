"""Reports about a build: manifest, archive, cycles and costs per layer, placements, tables."""
