"""Which pair to ask next: designs, greedy and adaptive choice, planning."""

from comparo.selection.designs import in_both_orders, in_one_order, random_pairs
from comparo.selection.selector import Selector, greedy_pairs

__all__ = ["Selector", "greedy_pairs", "in_both_orders", "in_one_order", "random_pairs"]
