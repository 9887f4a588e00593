"""Pictures with matplotlib (the extra `plots`): of rankings, of leaderboards, and of a judge against people."""

from comparo.plots.leaderboards import plot_agreement as plot_agreement
from comparo.plots.leaderboards import plot_groups as plot_groups
from comparo.plots.leaderboards import plot_length as plot_length
from comparo.plots.leaderboards import plot_wins as plot_wins
from comparo.plots.rankings import plot_convergence as plot_convergence
from comparo.plots.rankings import plot_difference_given_p as plot_difference_given_p
from comparo.plots.rankings import plot_efficiency as plot_efficiency
from comparo.plots.rankings import plot_joint as plot_joint
from comparo.plots.rankings import plot_position_bias as plot_position_bias
from comparo.plots.rankings import plot_ranking as plot_ranking
