"""python -m comparo.cli."""

from comparo.cli import main

main()
