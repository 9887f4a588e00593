"""The page of the paper's experiments: `python -m benchmarks.paper --data ../shared/data --out docs/measurements`."""

import argparse
from pathlib import Path

from benchmarks.paper.page import write_study

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--judgements", type=Path, help="by default the folder judgements in it")
    parser.add_argument("--out", type=Path, required=True, help="the folder for study.md and its images")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    given = vars(parser.parse_args())
    print(write_study(given.pop("data"), given.pop("out"), given.pop("judgements"), **given))
