"""How a kernel is found, imported and called."""
