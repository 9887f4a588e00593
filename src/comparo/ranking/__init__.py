"""Rankings: scores, ranks, tiers and rank intervals of candidates, leaderboards and grades."""
