"""The frozen values that stages hand to each other; no stage knows another except through these."""
