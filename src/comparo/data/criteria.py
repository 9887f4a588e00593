"""What a user may have meant by a criterion that does not end the question "Which Text is …?"."""

# From the attributes of the paper's data sets (`prompts.PAPER`) and those that evaluations ask for most.
ATTRIBUTES = {
    "accuracy": "more accurate",
    "clarity": "clearer",
    "coherence": "more coherent",
    "complexity": "more complex",
    "conciseness": "more concise",
    "consistency": "more consistent",
    "continuity": "continues the dialogue better",
    "correctness": "more correct",
    "creativity": "more creative",
    "difficulty": "more difficult",
    "empathy": "shows more empathy",
    "engagement": "more engaging",
    "engagingness": "more engaging",
    "factuality": "more factual",
    "faithfulness": "more faithful",
    "fluency": "more fluent",
    "groundedness": "more grounded in the facts",
    "harmlessness": "more harmless",
    "helpfulness": "more helpful",
    "honesty": "more honest",
    "humor": "funnier",
    "humour": "funnier",
    "informativeness": "more informative",
    "naturalness": "more natural",
    "originality": "more original",
    "persuasiveness": "more persuasive",
    "politeness": "more polite",
    "quality": "better",
    "readability": "easier to read",
    "relevance": "more relevant",
    "safety": "safer",
    "surprise": "more surprising",
    "toxicity": "more toxic",
    "understandability": "more understandable",
    "usefulness": "more useful",
}


def meant_by(criterion: str) -> str | None:
    """What the name of an attribute, or an adjective without "more", stands for; None for a criterion as it should be.

    >>> meant_by("coherence"), meant_by("Fluent"), meant_by("more coherent"), meant_by("funnier")
    ('more coherent', 'more fluent', None, None)
    """
    word = criterion.strip().casefold()
    if word in ATTRIBUTES:
        return ATTRIBUTES[word]
    return f"more {word}" if f"more {word}" in ATTRIBUTES.values() else None
