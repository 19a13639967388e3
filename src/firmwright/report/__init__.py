"""What a build reports: manifest, archive, cycles and costs by layer, placements, tables."""
