"""Every benchmark: `make bench`."""

from benchmarks import core, coverage, defaults, judges, loop, selection

for part in (core, coverage, selection, judges, loop, defaults):
    part.main()
