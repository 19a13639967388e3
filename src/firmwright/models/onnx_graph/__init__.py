"""ONNX graphs made simpler before they are imported."""
