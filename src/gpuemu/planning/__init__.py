"""Strategies expanded to an ordered list of cases within a budget."""
