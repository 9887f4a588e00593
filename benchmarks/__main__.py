"""Every benchmark: `make bench`."""

from benchmarks import (
    bounds,
    core,
    coverage,
    defaults,
    efficiency,
    goals,
    judges,
    loop,
    mixed,
    panel,
    scale,
    selection,
    study,
    validity,
    voices,
    wordings,
)

for part in (
    core,
    coverage,
    selection,
    judges,
    loop,
    scale,
    defaults,
    study,
    efficiency,
    mixed,
    validity,
    wordings,
    panel,
    voices,
    bounds,
    goals,
):
    part.main()
