"""The reference: its float64 result, and how much a legitimate kernel may lose (ORACLE.md section 2.3)."""
