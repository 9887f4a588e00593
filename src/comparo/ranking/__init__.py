"""What scores mean: the ranking, and the places (ranks, tiers, rank intervals) of its candidates."""
