"""NVIDIA's compute-sanitizer, believed only after it has found a planted bug."""
