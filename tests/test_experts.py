import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from comparo.analysis.correlations import Interpolated
from comparo.model.likelihoods import BradleyTerry, Expert, Gaussian, StudentT, derivatives
from inside import Constant, Linear

EXPERTS = [
    BradleyTerry(),
    Gaussian(),
    Gaussian(Linear(3.0, 0.4), Constant(0.5)),
    Gaussian(Interpolated((0.1, 0.9), (-1.0, 2.0)), Interpolated((0.0, 1.0), (0.5, 2.0))),
    StudentT(),
    StudentT(freedom=2.5, scale=0.4),
]
each_expert = pytest.mark.parametrize("expert", EXPERTS, ids=repr)
difference = st.floats(-6, 6)
probability = st.floats(0.02, 0.98)


@each_expert
@given(d=difference, p=probability)
def test_slope_and_curvature_are_the_derivatives(expert, d, p):
    step = 1e-5
    around = np.array([d - step, d, d + step])
    p = np.full(3, p)
    below, here, above = expert.log_density(around, p)
    slope, curvature = np.empty((2, 3))
    derivatives(expert, around, p, slope, curvature)
    assert slope[1] == pytest.approx((above - below) / (2 * step), abs=1e-6, rel=1e-6)
    assert curvature[1] == pytest.approx(-(slope[2] - slope[0]) / (2 * step), abs=1e-6, rel=1e-5)
    assert np.allclose(slope, expert.slope(around, p), atol=1e-15)
    assert np.allclose(curvature, expert.curvature(around, p), atol=1e-15)
    assert np.isfinite(here)


@each_expert
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_densities_are_normalised(expert, p):
    def density(d):
        return float(np.exp(expert.log_density(np.array([d]), np.array([p])))[0])

    total = quad(density, -np.inf, 0)[0] + quad(density, 0, np.inf)[0]
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.75])
def test_mean_and_mode_of_bradley_terry(p):
    expert = BradleyTerry()

    def moment(d):
        return d * float(np.exp(expert.log_density(np.array([d]), np.array([p])))[0])

    mean = quad(moment, -400, 0, limit=500)[0] + quad(moment, 0, 400, limit=500)[0]
    assert mean == pytest.approx(-np.pi / np.tan(np.pi * p), abs=1e-6)
    assert expert.slope(expert.mode(np.array([p])), np.array([p]))[0] == pytest.approx(0, abs=1e-12)


def test_certain_answers_stay_finite():
    p = np.array([0.0, 1.0])
    d = np.array([3.0, -3.0])
    for expert in EXPERTS:
        for values in (expert.log_density(d, p), expert.slope(d, p), expert.curvature(d, p)):
            assert np.isfinite(values).all()


def test_far_differences_keep_their_curvature():
    slope, curvature = np.empty((2, 2))
    derivatives(BradleyTerry(), np.array([-40.0, 40.0]), np.array([0.5, 0.5]), slope, curvature)
    assert np.allclose(curvature, np.exp(-40.0), rtol=1e-12)
    assert np.allclose(slope, [0.5, -0.5])


def test_an_expert_is_whatever_has_the_three_methods():
    class Mine:
        def log_density(self, d, p):
            return -((d - p) ** 2)

        def slope(self, d, p):
            return 2 * (p - d)

        def curvature(self, d, p):
            return np.full_like(d, 2.0)

    assert isinstance(Mine(), Expert)
    assert not isinstance(object(), Expert)
