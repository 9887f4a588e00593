"""Every benchmark: `make bench`."""

from benchmarks import (
    bounds,
    control,
    core,
    coverage,
    defaults,
    efficiency,
    goals,
    judges,
    panel,
    rivals,
    scale,
    selection,
    systems,
    ties,
    validity,
    votes,
    wordings,
)

for part in (
    core,
    coverage,
    selection,
    judges,
    scale,
    defaults,
    efficiency,
    validity,
    wordings,
    panel,
    systems,
    bounds,
    ties,
    control,
    goals,
    votes,
    rivals,
):
    part.main()
