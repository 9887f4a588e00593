"""From likelihoods to estimates: Newton, restricted likelihood, expectation propagation."""
