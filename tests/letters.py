"""A tokenizer with a token for every letter, digit and sign, for networks as small as tests need."""

import string
from pathlib import Path


def save_letters(folder: Path) -> dict[str, int]:
    """Write the tokenizer to a folder, in the layout of the Hugging Face hub; the number of each token."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = sorted(set(string.printable))
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(folder)
    return vocabulary
