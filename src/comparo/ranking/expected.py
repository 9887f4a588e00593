"""What a ranking expects of each answer, by the model of its judge."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from comparo.model.experts import is_logit
from comparo.model.ties import answer_moments
from comparo.ranking.indecision import comparison_ties
from comparo.ranking.ranking import Ranking
from comparo.types import Array


def expected(ranking: Ranking, equal: bool = False) -> Array:
    """P(first wins) of each comparison by the model of the judge, shape (K,); `equal` as if all scores were equal.

    σ(d) for Bradley–Terry, with half of P(tie) where ties are modelled, and ½ + d for scores that are means of
    probabilities, d = s_first − s_second − γ.
    """
    ranking = ranking.judged
    graph, product = ranking.graph, ranking.product
    between = ranking.scores[graph.first] - ranking.scores[graph.second]
    d = between if product is None else product.differences(slice(None))
    if ranking.panel is not None:
        d, between = ranking.panel.differences()
    d = d - between if equal else d
    nu = comparison_ties(ranking.comparisons, product, ranking.panel)
    if nu is not None:
        return answer_moments(d, nu)[0]
    return np.asarray(expit(d) if in_logits(ranking) else np.clip(0.5 + d, 0.0, 1.0))


def in_logits(ranking: Ranking) -> bool:
    """Whether differences of scores are logits of probabilities, as under Bradley–Terry."""
    product = ranking.product
    return ranking.method in ("bt", "bt-sigma", "panel") if product is None else is_logit(product.expert)
