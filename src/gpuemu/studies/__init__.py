"""The studies: each measures its figures in the run, by one command, and renders its own page."""
