"""The paper's experiments: its data sets, what it measures on them, and the baselines that it compares with.

Each file is one of them and is imported by its name, so that whoever needs one loads no other.
"""
