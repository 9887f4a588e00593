"""From a task to a ranking: budget, the loop that asks, the run folder, and how answers become scores."""
