"""Pictures of rankings, leaderboards and judges, with matplotlib (the extra `plots`)."""
