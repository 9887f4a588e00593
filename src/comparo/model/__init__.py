"""The equation: experts on differences of scores, the comparison graph, and the solver that finds the scores."""
