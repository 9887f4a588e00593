"""What runs keep: rows of databases, run folders, the judgement cache, open questions, costs, repair."""
