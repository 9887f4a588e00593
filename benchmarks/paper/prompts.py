"""The paper's prompts, by data set and attribute."""

from dataclasses import replace

from comparo.data.prompts import Prompt, criterion_prompt

_KINDS = {  # what the paper calls a text, the heading of its context, and what the question calls a text
    "summeval": ("Summary", "Article", "Summary"),
    "topicalchat": ("Response", "Dialogue", "Response"),
    "hanna": ("Story", None, "story"),
    "cmcqrd": ("Question", None, "reading comprehension question"),
}

PAPER = {
    "summeval/coherence": "is more coherent",
    "summeval/consistency": "is more consistent to the article",
    "summeval/fluency": "is more fluent",
    "summeval/relevance": "is more relevant to the article",
    "topicalchat/coherence": "is more coherent",
    "topicalchat/continuity": "continues the dialogue better",
    "topicalchat/engagingness": "is more engaging",
    "topicalchat/groundedness": "is more grounded in the facts",
    "topicalchat/naturalness": "appears more natural",
    "topicalchat/understandability": "is more understandable",
    "hanna/coherence": "is more coherent",
    "hanna/complexity": "is more complex",
    "hanna/empathy": "shows more empathy",
    "hanna/engagement": "is more engaging",
    "hanna/relevance": "is more relevant to its prompt",
    "hanna/surprise": "is more surprising",
    "cmcqrd/difficulty": "is more difficult to answer",
}


def paper_prompt(name: str) -> Prompt:
    """One of the paper's prompts, by data set and attribute; `PAPER` holds their names.

    The paper prints seven of them; the others are in its style.

    >>> paper_prompt("hanna/surprise").template
    'Story A:\\n{first}\\n\\nStory B:\\n{second}\\n\\nWhich story is more surprising, Story A or Story B?'
    """
    if name not in PAPER:
        raise ValueError(f"there is no prompt {name!r}; the paper's are {', '.join(PAPER)}")
    kind, heading, which = _KINDS[name.split("/")[0]]
    prompt = criterion_prompt(PAPER[name], kind, heading)
    template = prompt.template.replace(f"Which {kind}", f"Which {which}")
    return replace(prompt, template=template if heading else template.replace(": {", ":\n{"))
