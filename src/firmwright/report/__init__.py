"""What a build tells: manifest, archive, cycles by layer, placements, boxes."""
