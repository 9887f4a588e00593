"""The paper's experiments: its data sets, its claims, and the baselines that it compares with."""
