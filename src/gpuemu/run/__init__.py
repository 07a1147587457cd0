"""Where a candidate is called, and what the guards see."""
