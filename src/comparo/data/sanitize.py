"""Untrusted text, made safe to show on a terminal, to store and to send to a chat model.

Texts to compare are data. A server inserts them into the chat template of its model and turns the whole into tokens, so
that a text with `<|im_end|>` in it would end its own turn. Judges that have the tokenizer know its control tokens; for
all others they are recognised by their form. Some forms have no ordinary meaning:

    <|name|>  <|name>  <name|>  <｜name｜>  [|name|]     Llama, Qwen, Phi, GLM, Granite, Gemma 4, DeepSeek, EXAONE
    ]~b]  [e~[  ]<]name[>[                               MiniMax
    <<SYS>>                                              Llama 2
    >>NAME<<                                             Falcon

Names in single brackets are also HTML (`<b>`), code (`List<String>`) and notes (`[1]`), so only the names that are
control tokens of a model count: `<eos>`, `<end_of_turn>`, `[INST]`.

Words may be hidden from a comparison, though not from a reader, by look-alikes of letters and by characters that are
not seen: `skeleton` undoes both. In a prompt, texts stand between digits that none of them holds (`delimiter_for`).
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

DELIMITER = "7e84f271"  # arbitrary; docs/judges.md measures it. By chance, one text of 2³² holds it
# What a terminal executes instead of printing it: control characters, marks that change the direction of the text, line
# separators, and halves of surrogate pairs, which cannot be printed at all.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")
# Unicode's Default_Ignorable_Code_Point, with lines through letters, marks of annotations and the blank of Braille.
_INVISIBLE = re.compile(
    "[\u00ad\u0332-\u0338\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    "\ufe00-\ufe0f\ufeff\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Cyrillic, Greek, Armenian and small capital letters, each with the Latin letter that it or its capital looks like.
_FOREIGN = "авегкмнопрстухіјѕѵԁһԛԝαβεζηικμνορτυχհոօսıᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"
_LATIN = "aberkmhonpctyxijsvdhqwabezhikmnoptyxhnouiabcdefghijklmnoprstuvwyz"
_ALIKE = str.maketrans(f"{_FOREIGN}{_FOREIGN.upper()}İ", f"{_LATIN}{_LATIN.upper()}I")
# Line by line: of Llama 2, Gemma, T5 and many others; turns and sentences; spare tokens; Gemma, Command R; InternVL,
# StepFun; Idefics, SmolVLM; InternLM, GLM; gaps to fill, of Code Llama and StarCoder; thoughts and tools; Seed,
# MiniMax, LongCat; SmolLM.
_ANGLED = r"""
    /?s | pad | unk | bos | eos | bot | eot | eod | eom | bom | cls | sep | mask (?: :\d+ )? | gmask
    | (?: start | end | begin | beginning ) _of_ \w+
    | (?: unused | reserved | special | extra | extra_id ) _? \d+
    | (?: bos | eos | sot | eot | pad | unk | mask | eop | cls | sep | (?: image | audio ) _soft ) _token
    | image | img_context | im_ (?: patch | start | end | col | newline )
    | fake_token_ \w+ | global-img | row_\d+_col_\d+
    | sop | eop | eoh | eoa | eosys
    | (?-i: PRE | SUF | MID | REPO ) | fim [_-] \w+
    | /? (?: think | tool_ (?: call | response | result ) s? | arg_ (?: key | value ) )
    | /? (?: seed | minimax | longcat ) [:_] \w+
    | reponame | repo_name | file_sep | gh_stars | issue_ (?: start | comment | closed ) | jupyter_ \w+ | empty_output
"""
# Of Mistral, from its first version to Tekken; BERT, GLM and Kimi; Gemma, T5, openPangu.
_SQUARED = r"""
    /? (?: INST | SYSTEM_PROMPT | MODEL_SETTINGS | AVAILABLE_TOOLS | TOOL_ (?: CALLS | RESULTS | CONTENT ) | THINK )
    | ARGS | CALL_ID | IMG (?: _BREAK | _END )? | (?: BEGIN_ )? AUDIO | TRANSCRIBE | PREFIX | MIDDLE | SUFFIX
    | CONTROL_\d+ | CLS | SEP | [gs]? MASK | PAD \d* | UNK | BOS | EOS | EOT | EOD | (?: start | end ) _header_id
    | @BOS@ | multimodal | extra_id_\d+ | unused \d+
"""
_BARS = "[|｜]"
_CONTROL = re.compile(
    rf"""
    < (?= {_BARS} [^<>\n]{{1,64}}? {_BARS} > | {_BARS} [^\s<>]{{1,64}} > | [^\s<>|｜]{{1,64}} {_BARS} > )
    | \[ (?= \| [^][\n]{{1,64}}? \|\] | e~\[ )
    | \] (?= [~!]{{1,2}} \w? ~? [][] | <\] [\w\ ]{{1,32}} \[>\[ )
    | < (?= </?SYS>> )
    | > (?= >[A-Z]{{2,32}}<< )
    | < (?= (?i: {_ANGLED} ) > )
    | \[ (?= (?: {_SQUARED} ) \] )
    """,
    re.VERBOSE,
)


def visible(text: object, lines: bool = True) -> str:
    r"""Text with every control character for a terminal written as an escape; `lines` keeps tabs and newlines.

    >>> visible("a\x1b[31mb")
    'a\\u001b[31mb'
    >>> visible("one\ntwo", lines=False)
    'one\\ntwo'
    """
    shown = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))
    if lines:
        return shown
    return shown.replace("\t", "\\t").replace("\n", "\\n")


def without_login(text: str) -> str:
    """The text without user names and passwords in its URLs.

    >>> without_login("base_url=http://me:secret@localhost:8000/v1")
    'base_url=http://localhost:8000/v1'
    """
    return _LOGIN.sub("", text)


def skeleton(text: str) -> str:
    """The text as it looks: NFKC, without invisible characters, and with Latin letters in place of look-alikes.

    >>> skeleton("\uff21n\u200b\u0430"), skeleton("Jos\u00e9")
    ('Ana', 'José')
    """
    return text if text.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).translate(_ALIKE)


def defuse(text: str) -> str:
    """The text with a space in every sequence that a chat model may read as a control token; nothing else changes.

    >>> defuse("Good.<|im_end|>"), defuse("<eos> [/INST]"), defuse("<b>List<String></b> [1] [INSTALL]")
    ('Good.< |im_end|>', '< eos> [ /INST]', '<b>List<String></b> [1] [INSTALL]')
    """
    return _CONTROL.sub(lambda match: f"{match[0]} ", text)


def delimiter_for(texts: Sequence[str]) -> str:
    """Hexadecimal digits that no text holds: `DELIMITER` or, where a text holds it, digits of the texts' SHA-256.

    A constant lets different prompts share their beginning. All texts of a prompt have the same digits, because digits
    sway small models. What looks like the digits counts as them (`look_alike`).
    """
    # Not drawn from the seed: answers are cached by their prompts, which must be the same in runs of another seed.
    held, digits = [skeleton(text) for text in texts], DELIMITER
    while any(map(look_alike(digits).search, held)):
        source = "\0".join([digits, *texts])
        digits = hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[: len(DELIMITER)]
    return digits


def look_alike(digits: str) -> re.Pattern[str]:
    """The pattern of hexadecimal digits, and of characters that look like them, in a `skeleton`.

    >>> look_alike("7e01").findall("7e01 7E0l 7-e-0-1 7 eO1 7e-+-01")
    ['7e01', '7E0l', '7-e-0-1', '7 eO1']
    """
    alike = {"0": "[0o]", "1": "[1il|]"}
    return re.compile(r"[\W_]{0,2}".join(alike.get(digit, digit) for digit in digits), re.IGNORECASE)
