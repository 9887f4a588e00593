"""The text of a document: .docx by the standard library, .pdf with a text layer by pypdf (the extra `documents`).

Documents are untrusted: a document type declaration, the way to entities that expand without end, is refused, and so is
a part that unpacks to more than `MOST` bytes.
"""

import importlib
import importlib.util
import zipfile
import zlib
from pathlib import Path
from xml.parsers import expat

from comparo.errors import ComparisonsError, pip_install

MOST = 64 << 20  # bytes of a document's text with its markup: a limit on memory
PART = "word/document.xml"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
# What is no text: tab stops, and the repetition of an alternative for old programs.
HIDDEN = {f"{WORD} pPr", f"{STRICT} pPr", "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"}
BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def docx_text(path: Path) -> str:
    """The paragraphs of a .docx file, one per line; a ComparisonsError where it is not one, or too large."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(PART) as part:
            content = part.read(MOST + 1)
        if len(content) > MOST:
            raise ComparisonsError(f"{path} unpacks to more than {MOST >> 20} MB; save its text as .txt")
        return _paragraphs(content)
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
        raise ComparisonsError(f"{path} is not a whole .docx file ({error}); save it again, or as .txt") from error
    except (expat.ExpatError, ValueError) as error:
        raise ComparisonsError(f"{path} has text that cannot be read ({error}); save it as .txt") from error


def _paragraphs(content: bytes) -> str:
    """The text of word/document.xml; a ValueError where it has a document type declaration.

    >>> xml = f'<w:p xmlns:w="{WORD}"><w:r><w:t>One</w:t><w:tab/><w:t>two</w:t></w:r></w:p>'
    >>> _paragraphs(xml.encode())
    'One\\ttwo'
    """
    pieces: list[str] = []
    open_names: list[str] = []

    def start(name: str, _: object) -> None:
        open_names.append(name)
        namespace, local = name.rpartition(" ")[::2]
        if namespace in (WORD, STRICT) and local in BREAKS and HIDDEN.isdisjoint(open_names):
            pieces.append(BREAKS[local])

    def end(name: str) -> None:
        open_names.pop()
        if name in (f"{WORD} p", f"{STRICT} p") and HIDDEN.isdisjoint(open_names):
            pieces.append("\n")

    def text(data: str) -> None:
        if open_names[-1] in (f"{WORD} t", f"{STRICT} t") and HIDDEN.isdisjoint(open_names):
            pieces.append(data)

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)
    return "".join(pieces).strip()


def pdf_text(path: Path) -> str:
    """The text layer of a .pdf file, page after page; a ComparisonsError where it has none, or pypdf is missing."""
    if importlib.util.find_spec("pypdf") is None:
        raise ComparisonsError(f"{path}: .pdf needs pypdf: {pip_install('documents')}; or save the text as .txt")
    pypdf = importlib.import_module("pypdf")
    try:
        found = "\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages).strip()
    except (pypdf.errors.PyPdfError, pypdf.errors.DependencyError, ValueError, KeyError) as error:
        raise ComparisonsError(f"{path} cannot be read ({error}); save its text as .txt") from error
    if not found:
        raise ComparisonsError(f"{path} has no text layer; recognise its text (OCR), and save it as .txt")
    return found
