"""Every benchmark: `make bench`."""

from benchmarks import (
    bounds,
    control,
    core,
    coverage,
    defaults,
    efficiency,
    judges,
    loop,
    mixed,
    panel,
    scale,
    selection,
    study,
    systems,
    ties,
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
    systems,
    bounds,
    ties,
    control,
):
    part.main()
