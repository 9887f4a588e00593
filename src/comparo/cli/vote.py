"""comparo vote: people are the judges, on a page of this machine."""

import getpass
import shlex
import webbrowser
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from comparo.cli.flags import ColumnFlags, Count, named
from comparo.cli.printing import print_text, say, stoppable
from comparo.cli.settings import command_line
from comparo.data.grammar import part
from comparo.data.wordings import PAPER_WORDING
from comparo.options import PollOptions
from comparo.run.voices import make_prompt, split_kind
from comparo.vote.booth import Booth, opened
from comparo.vote.server import HOST, LOCAL, check_installed, is_local, open_socket, origin_of, public_url
from comparo.vote.session import Links, Voting, disputed_pairs, informative_pairs, parse_names, split_reasons

if TYPE_CHECKING:
    from comparo.vote.pages import Pages


@dataclass(frozen=True)
class PeopleFlags(PollOptions):
    """Who votes, and how pairs are shared out.

    Parameters
    ----------
    judges : Who votes, such as ana,bo; each gets a link. May be repeated. At a later start more may be named, and the
        link of who is left out is revoked. Default: you.
    invite : Also an invitation: whoever opens it gives a name and gets a link.
    lineup : How many texts a judge sees at once: 2, or 3 or 4 to put in order, the best first.
    reasons : Reasons that a judge may tick beside a vote, such as 'clearer,better evidence', or write in a line of
        their own; votes.csv has them, and `comparo why` reads them.
    each : How many votes each judge is asked for; all may give more. Default: five pairs per text, shared among the
        judges; none with --invite.
    only : disagreements: of a judge's run, only the 20 pairs on which votes so far contradict the judge most.
    """

    judges: Annotated[list[str] | None, typer.Option("--for")] = None
    invite: bool = False
    lineup: Annotated[int, typer.Option(min=2, max=4)] = 2
    reasons: str | None = None
    each: Count = None
    only: Literal["disagreements"] | None = None

    def ticked(self) -> tuple[str, ...] | None:
        """The reasons that may be ticked, None where judges are asked for none."""
        return None if self.reasons is None else split_reasons(self.reasons)

    def names(self) -> list[str]:
        """The names of the judges, by default the user's; none by default with --invite."""
        if self.judges:
            return parse_names(",".join(self.judges))
        if self.invite:
            return []
        try:
            return parse_names(getpass.getuser().replace(",", " "))
        except (OSError, KeyError, ValueError):
            return ["me"]


@dataclass(frozen=True)
class PageFlags:
    """The page and its address.

    Parameters
    ----------
    markdown : Show texts as Markdown: headings, lists, bold, italics, code. HTML and links stay text. Default: as they
        are.
    host : The address to serve at. The default is for this machine only; 0.0.0.0 is for its network.
    port : The port. Default: that of the last start, the usual one, or a free one.
    behind : The public address of a proxy, https://HOST/PREFIX, which passes requests on without the prefix.
    no_browser : Print the links only, and open no page.
    """

    markdown: bool = False
    host: str = HOST
    port: Annotated[int | None, typer.Option(min=1, max=65535)] = None
    behind: str | None = None
    no_browser: bool = False


def vote_command(
    data: str,
    criterion: Annotated[str, typer.Option()],
    kind: str = "Text",
    *,
    people: PeopleFlags,
    page: PageFlags,
    columns: ColumnFlags,
    out: Path | None = None,
    fresh: bool = False,
) -> None:
    """People vote on a page: two texts side by side, which is better? Every vote is safe before the next pair.

    Opens a page on this machine. Judges choose with the keys A, B and = (equal), U takes back, S skips with a reason,
    D marks the differences. With --lineup 3 or 4 they press the letters of the texts, the best first. The organiser's
    page shows votes, speed, agreement and the ranking as they come. Stop with Ctrl-C; the same command continues, with
    the same links. The run folder is like that of `comparo rank`.

    Parameters
    ----------
    data : The texts: a folder of .txt, .md, .docx, .pdf, .png or .jpg files, or JSONL, JSON, CSV, TSV, Parquet or
        .xlsx with columns id, text (and context), a .txt file with a text a line, or a run folder: of a judge's run,
        the pairs that show most about the judge come first.
    criterion : What makes a text better, to end "Which Text is …": "better argued", "more convincing".
    kind : What the texts are, in the question to judges: Essay; also with what stands above the context, by default the
        name of its column: 'Summary; heading=Article'.
    out : The run folder. Default: comparo-runs/TIME-NAME, or that of the same voting, to continue.
    fresh : Start anew; an existing folder is renamed and kept.

    Examples
    --------
    `comparo vote essays/ --criterion 'better argued' --for ana,bo,cy`, or for a class in one network: `comparo vote
    essays/ --criterion 'better argued' --invite --host 0.0.0.0`. Then `comparo runs --report RUN` for the report.
    docs/vote.md has more.
    """
    check_installed()
    if people.only is not None and people.lineup > 2:
        raise ValueError("--only disagreements is about pairs; leave --lineup out")
    people.ticked()
    public = None if page.behind is None else public_url(page.behind)
    items = columns.read(data, has_images=True)
    prompt = make_prompt(items, criterion, None, kind=kind, context=columns.context_column, wording=PAPER_WORDING)
    prompt = prompt.resized(people.lineup)
    is_free = people.lineup == 2 and people.only is None
    first = informative_pairs(data, people.seed) if is_free else []
    if first:
        say(f"The first {len(first)} pairs are those that tell most about the judge of {data}; then the others.")
    voting = Voting(items, prompt, people.names(), first, **part(people, PollOptions))
    folder = voting.folder(named(data), out, fresh)
    if folder.exists() and not fresh:
        voting.check_texts(folder)
    if people.only is not None:
        voting = replace(voting, first=disputed_pairs(data, folder), is_only_first=True)
        say(f"Only the {len(voting.first)} pairs on which votes contradict the judge of {data} most.")
    is_new = fresh and out is not None
    links = (Links.new() if is_new else Links.read(folder)).with_judges(voting.names, bool(people.judges))
    with closing(open_socket(page.host, page.port, links.port)) as listening:
        served = replace(links, port=listening.getsockname()[1])
        with opened(voting, folder, served, {"command": command_line()}, fresh=is_new) as booth:
            origin = public or origin_of(listening, page.host)
            pages = _pages(booth, people, page, origin, *split_kind(kind, columns.context_column))
            _serve(pages, page, listening, links.port)


def _pages(booth: Booth, people: PeopleFlags, page: PageFlags, origin: str, kind: str, heading: str) -> "Pages":
    from comparo.vote.pages import Pages

    each = None if people.invite else booth.voting.each(len(booth.links.active))
    if people.each is not None:
        each = min(people.each, booth.voting.pairs)
    return Pages(booth, kind, heading, each, page.markdown, origin, people.invite, people.ticked())


def _serve(pages: "Pages", page: PageFlags, listening: socket, before: int | None) -> None:
    """Serve the pages until the server is stopped, then print where the votes are; `before` is the last port."""
    from comparo.vote.app import make_app, serve

    booth, code = pages.booth, 0
    behind = None if page.behind is None else pages.origin
    app = make_app(pages, (*LOCAL, page.host) if is_local(page.host) and behind is None else None, behind)
    try:
        with stoppable():
            serve(app, listening, lambda: _begin(pages, page, before))
    except KeyboardInterrupt as stop:
        code = getattr(stop, "code", 0)
    folder, votes = shlex.quote(str(booth.store.folder)), sum(ballot.is_vote for ballot in booth.shown())
    say(f"\nStopped. Votes so far: {votes:,}, in {folder}. The same command goes on, with the same links.")
    if votes:
        say(f"The ranking: comparo fit {folder}\nThe report: comparo runs --report {folder}")
    raise typer.Exit(code)


def _begin(pages: "Pages", page: PageFlags, before: int | None) -> None:
    """Print the links, and open the page of the only judge, or the organiser's."""
    links, origin = pages.booth.links, pages.origin
    organiser = f"{origin}/organiser/{links.organiser}/"
    rows = [("organiser", organiser)]
    rows += [(name, f"{origin}/vote/{token}/") for name, token in links.active.items()]
    if pages.has_invitation:
        rows.append(("invitation", f"{origin}/join/{links.invitation}/"))
    width = max(len(name) for name, _ in rows)
    print_text("".join(f"{name:<{width}}  {link}\n" for name, link in rows))
    if before not in (None, links.port):
        say(f"The links have changed: they were at port {before}, and are at {links.port} now.", "yellow")
    if page.behind is not None:
        say(
            f"WARNING: everybody who can reach {origin} and has a link can vote and read the texts. Its proxy must "
            f"pass requests to port {links.port} of {page.host}, without the prefix.",
            "bold red",
        )
    elif not is_local(page.host):
        say(
            f"WARNING: everybody who can reach {origin} and has a link can vote and read the texts, and what is sent "
            "is not encrypted. Use a network that you trust.",
            "bold red",
        )
    say(f"Votes are stored in {pages.booth.store.folder}. Stop with Ctrl-C.")
    if not page.no_browser:
        _open(rows[1][1] if len(links.active) == 1 and not pages.has_invitation else organiser)


def _open(link: str) -> None:
    """Open a link in a browser with windows; one in the terminal would keep the server from starting."""
    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            Thread(target=browser.open, args=(link,), daemon=True).start()
