"""The product of experts: likelihoods of score differences, the comparison graph, and the solvers for the scores."""
