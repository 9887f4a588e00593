"""The density of an answer given the difference of two scores: one file per family."""

from comparo.model.likelihoods.experts import BradleyTerry, Davidson, Expert, Gaussian, StudentT

__all__ = ["BradleyTerry", "Davidson", "Expert", "Gaussian", "StudentT"]
