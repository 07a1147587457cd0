"""The op library: schema, reference and contract of every built-in op, a file per family.

A family module defines `OPS`, a tuple of `Op`; the registry is their union, loaded on first use.
"""
