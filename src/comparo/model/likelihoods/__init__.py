"""The density of an answer given the difference of two scores: one file per family."""

from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.davidson import Davidson
from comparo.model.likelihoods.experts import Expert
from comparo.model.likelihoods.gaussian import Gaussian, StudentT

__all__ = ["BradleyTerry", "Davidson", "Expert", "Gaussian", "StudentT"]
