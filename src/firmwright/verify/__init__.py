"""Run networks on samples and compare them: firmware and reference, and those of `evaluate`."""
