"""The corpus: known-correct kernels (controls) and their buggy twins, a folder per op.

A folder holds kernel files as a user would have them, and `corpus.toml`, which states the op and each kernel's
role, its control and its bug. `catalogue.py` reads those statements; it never imports a kernel.
"""
