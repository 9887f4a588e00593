"""The paper's experiments: its data sets, what it measures on them, and the baselines that it compares with.

Each file is imported by its own name: one experiment does not load the others.
"""
