"""Which pair to ask next: designs, greedy and adaptive choice, the contrast and style of texts, planning."""
