"""Pictures with matplotlib (the extra `plots`): of rankings, of leaderboards, and of a judge against people."""

from comparo.plots.leaderboards import plot_agreement, plot_groups, plot_length, plot_wins
from comparo.plots.rankings import (
    plot_convergence,
    plot_difference_given_p,
    plot_efficiency,
    plot_joint,
    plot_position_bias,
    plot_ranking,
)

__all__ = [
    "plot_agreement",
    "plot_convergence",
    "plot_difference_given_p",
    "plot_efficiency",
    "plot_groups",
    "plot_joint",
    "plot_length",
    "plot_position_bias",
    "plot_ranking",
    "plot_wins",
]
