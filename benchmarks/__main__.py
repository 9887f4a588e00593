"""Every benchmark: `make bench`."""

from benchmarks import (
    auto,
    bounds,
    core,
    coverage,
    defaults,
    efficiency,
    judges,
    loop,
    mixed,
    panel,
    prices,
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
    auto,
    panel,
    voices,
    prices,
    bounds,
):
    part.main()
