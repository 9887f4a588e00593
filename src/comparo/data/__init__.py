"""What is compared and what was answered: items, prompts, comparisons, and the files and frames that hold them."""
