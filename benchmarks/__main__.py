"""Every benchmark: `make bench`."""

from benchmarks import (
    bounds,
    core,
    coverage,
    defaults,
    efficiency,
    judges,
    loop,
    mixed,
    scale,
    selection,
    study,
    validity,
)

for part in (core, coverage, selection, judges, loop, scale, defaults, study, efficiency, mixed, validity, bounds):
    part.main()
