"""The density of an answer given the difference of two scores: one file per family."""
