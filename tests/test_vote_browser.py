"""The voting page in a real browser: two judges at once, keys, a phone, the dark, and hostile texts."""

import json
import socket

import pytest

from browsers import PATIENCE, Browser
from inside import read_judgements
from voting import Server

SCRIPT = "<script>document.title = 'broken'</script>"
HOSTILE = {
    "script": f"{SCRIPT}<img src=x onerror=\"document.title='broken'\">\n\nSecond paragraph & more.",
    "bold": "**Bold** and `code <b>` and [a link](https://example.org/).\n\n- one\n- two",
    "long word": "x" * 3000,
    "right to left": "שלום עולם " * 30 + "\u202eabc",
    "jinja": "{{ 7 * 7 }} {% raw %} </div></main>",
    "emoji": "🎉👩‍👩‍👧‍👦 " * 100,
}


BOX = "every('.pair article').map(e => e.getBoundingClientRect())"


class Page(Browser):
    """The page of a judge."""

    def state(self):
        return self.run("return {...document.querySelector('.state').dataset}")

    def press(self, key):
        """Press a key, once the page takes votes, as a person does."""
        self.wait("ready()")
        self.driver.switch_to.active_element.send_keys(key)

    def write(self, name, text):
        self.driver.find_element("id", name).send_keys(text)

    def moves_on(self, before):
        self.wait("document.querySelector('.state').dataset.ballot !== arguments[0]", before)

    def vote(self, key):
        before = self.state()["ballot"]
        self.press(key)
        self.moves_on(before)

    def is_aside(self):
        """Whether all texts are side by side; an error if they are neither so nor one above the other."""
        found = self.run(f"{BOX}.map(r => [r.left, r.top])")
        left, top = (len(set(each)) for each in zip(*found, strict=True))
        assert {left, top} == {1, len(found)}
        return top == 1


@pytest.fixture
def page(driver):
    page = Page(driver)
    yield page
    assert page.complaints() == []


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("essays")
    for name, text in HOSTILE.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def address(server, name):
    return f"http://127.0.0.1:{server.port}/vote/{server.links()['judges'][name]}/"


@pytest.fixture
def server(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--for", "ana,bo", "--kind", "Essay") as started:
        yield started


def test_two_judges_vote_at_once_with_the_keyboard(page, driver, server):
    ana = page
    driver.switch_to.new_window("window")
    bo = Page(driver)
    ana.open(address(server, "ana"))
    bo.open(address(server, "bo"), width=400, dark=True)
    try:
        for key in "ab=":
            for judge in (ana, bo):
                judge.vote(key)
        ana.vote("a")
        given = [(one.question.voice, one.reply) for one in read_judgements(server.out)]
        assert given == [(name, reply) for reply in "AB=" for name in ("ana", "bo")] + [("ana", "A")]
        assert all(0.5 <= one.seconds < PATIENCE for one in read_judgements(server.out))
        ana.vote("u")
        assert len(read_judgements(server.out)) == 6
        assert "3 of" in ana.text(".progress")
    finally:
        driver.switch_to.window(bo.window)
        driver.close()
        driver.switch_to.window(ana.window)


def test_texts_are_put_in_order_by_keys(page, texts, tmp_path):
    with Server(texts, tmp_path / "run", "--for", "ana", "--lineup", "4") as server:
        page.open(address(server, "ana"))
        assert page.is_aside()
        page.press("c")
        for key, order in (
            ("c", "…"),
            ("2", "B > …"),
            ("d", "B > D > …"),
            ("u", "B > …"),
            ("=", "B > …"),
            ("4", "B > D > …"),
        ):
            page.press(key)
            assert page.text("#order") == order, key
        pressed = "every('[aria-pressed=true]').map(e => e.dataset.label).join('')"
        assert page.run(pressed) == "BD"
        page.vote("a")
        page.press("c")
        page.run("document.querySelector('[data-label=A]').click()")
        page.vote("b")
        assert [one.lineup for one in read_judgements(server.out)] == ["B>D>A>C", "C>A>B>D"]
        page.vote("u")
        assert [one.lineup for one in read_judgements(server.out)] == ["B>D>A>C"]
        page.open(address(server, "ana"), 400)
        assert not page.is_wide()
        assert not page.is_aside()


def test_a_vote_may_have_reasons(page, texts, tmp_path):
    with Server(texts, tmp_path / "run", "--for", "ana", "--reasons", "clearer, better evidence") as server:
        page.open(address(server, "ana"))
        for key in "221":
            page.press(key)
        page.write("because", "ab = 1\n")  # no letter of a reason is a vote
        page.vote("b")
        page.vote("a")
        page.press("2")
        page.vote("=")
        assert [one.reply for one in read_judgements(server.out)] == ["B\nclearer; ab = 1", "A", "=\nbetter evidence"]
        page.open(address(server, "ana"), 400)
        assert not page.is_wide()


@pytest.mark.long
def test_skipping_needs_a_reason_and_undo_brings_the_pair_back(page, server):
    page.open(address(server, "ana"))
    shown = page.state()
    page.press("s")
    page.wait("document.getElementById('skipping').open")
    page.run("document.getElementById('skip-now').click()")
    assert page.run("document.getElementById('skipping').open")
    page.write("reason", "aubs =\n")  # no letter of a reason is a vote
    page.moves_on(shown["ballot"])
    (skipped,) = read_judgements(server.out)
    assert skipped.error == "skipped: aubs ="
    page.press("s")
    page.wait("document.getElementById('skipping').open")
    second = page.state()["ballot"]
    page.driver.switch_to.active_element.send_keys("3")
    page.moves_on(second)
    assert read_judgements(server.out)[1].error == "skipped: I know who wrote one"
    for _ in range(2):
        page.vote("u")
    assert page.state()["ballot"] == shown["ballot"]
    assert read_judgements(server.out) == []


@pytest.mark.long
def test_a_double_click_is_one_vote(page, server):
    page.open(address(server, "ana"))
    page.wait("ready()")
    page.run("const b = document.querySelector('[data-choice=A]'); b.click(); b.click()")
    page.wait("document.querySelector('.state').dataset.votes === '1'")
    page.run("document.querySelector('[data-choice=A]').click()")  # where the pointer still is
    page.run("document.querySelector('[data-choice=B]').focus()")
    page.wait("ready()")
    assert page.state()["votes"] == "1"
    assert len(read_judgements(server.out)) == 1
    page.vote("\n")
    assert [one.reply for one in read_judgements(server.out)] == ["A", "B"]
    assert page.run("document.activeElement.dataset.choice") == "B"  # for those who use the Tab key


@pytest.mark.long
@pytest.mark.parametrize(("width", "markdown"), [(1280, False), (400, True)])
def test_hostile_texts_are_shown_as_text(page, texts, tmp_path, width, markdown):
    flags = ["--markdown"] if markdown else []
    with Server(texts, tmp_path / "run", "--for", "<b>ana</b>", *flags) as server:
        page.open(address(server, "<b>ana</b>"), width, dark=True)
        assert page.text(".who") == "<b>ana</b>"
        seen = ""
        for _ in range(5):  # pairs that connect all six texts
            seen += page.text(".pair")
            assert not page.is_wide()
            assert page.run("every('main script, main img, main a, main b').length") == 0
            page.press("d")
            page.wait("document.querySelector('mark') !== null")
            assert not page.is_wide()
            page.press("d")
            page.wait("document.querySelector('mark') === null")
            page.vote("a")
        assert SCRIPT in seen
        assert "{{ 7 * 7 }}" in seen
        assert ("**Bold**" in seen) != markdown
        assert ("https://example.org" in seen) != markdown
        assert page.run("document.title") == "Which Text is better argued?"


@pytest.mark.long
def test_the_page_fits_a_phone_and_the_dark(page, server):
    colours = []
    for dark in (False, True):
        page.open(address(server, "ana"), 400, dark)
        assert not page.is_wide()
        assert not page.is_aside()
        bar = page.run("const r = document.querySelector('.choices').getBoundingClientRect(); return [r.top, r.bottom]")
        assert 0 < bar[0] < bar[1] <= 900  # in sight without scrolling
        colours.append(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours[0] == "rgb(255, 255, 255)" != colours[1]
    page.open(address(server, "ana"), 1280)
    assert page.is_aside()


@pytest.mark.long
def test_a_vote_that_cannot_be_saved_stays_on_the_page_until_it_is(page, server):
    page.open(address(server, "ana"))
    page.vote("a")
    shown = page.state()
    with server.full_disk():
        page.press("b")
        page.wait("!document.getElementById('trouble').hidden")
        assert "NOT saved" in page.text("#trouble")
        assert page.state() == shown
    page.run("document.getElementById('retry').click()")
    page.wait("document.querySelector('.state').dataset.votes === '2'")
    assert page.run("document.getElementById('trouble').hidden")
    assert [one.reply for one in read_judgements(server.out)] == ["A", "B"]
    assert page.complaints()


@pytest.mark.long
def test_a_judge_goes_on_when_the_server_comes_back(page, texts, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]  # not the usual one, which another server may take while this one is down
    with Server(texts, tmp_path / "run", "--for", "ana,bo", "--port", str(port)) as server:
        page.open(address(server, "ana"))
        page.vote("a")
        server.kill()
        page.press("b")
        page.wait("!document.getElementById('trouble').hidden")
        assert "NOT saved yet" in page.text("#trouble")
    with server:
        page.wait("document.querySelector('.state').dataset.votes === '2'")
        assert page.run("document.getElementById('trouble').hidden")
    assert [one.reply for one in read_judgements(server.out)] == ["A", "B"]
    assert page.complaints()


@pytest.mark.long
def test_the_organiser_sees_votes_as_they_come(page, texts, tmp_path):
    with Server(texts, tmp_path / "run", "--for", f"ana,{SCRIPT[:30]}", "--invite") as server:
        page.open(f"http://127.0.0.1:{server.port}{server.organiser}/")
        assert "no ranking before" in page.text()
        voter = server.voter("ana")
        for choice in "ABA=B":
            voter.vote(choice)
        page.wait("every('.ranking tbody tr').length >= 4")
        assert "5" in page.text(".cards .figure")
        assert SCRIPT[:30] in page.text("table")
        page.run("document.querySelector('.copy').click()")
        page.wait("document.querySelector('.copy').innerText === 'Copied' || document.querySelector('#live input')")
        assert page.run("document.title") == "Which Text is better argued?"
        for width in (1280, 400):
            page.open(f"http://127.0.0.1:{server.port}{server.organiser}/", width, dark=True)
            assert not page.is_wide()


@pytest.mark.long
def test_an_invitation_leads_to_a_page_of_ones_own(page, texts, tmp_path):
    with Server(texts, tmp_path / "run", "--invite") as server:
        page.open(f"http://127.0.0.1:{server.port}/join/{server.links()['invitation']}/", 400)
        page.write("name", "Ana\n")
        page.wait("return location.pathname.startsWith('/vote/') && document.querySelector('.state') !== null")
        page.vote("a")
        page.open(f"http://127.0.0.1:{server.port}/join/{server.links()['invitation']}/", 400)
        page.write("name", "ana\n")
        page.wait("!document.getElementById('trouble').hidden")
        assert "already" in page.text("#trouble")
    assert [one.question.voice for one in read_judgements(server.out)] == ["Ana"]
    assert json.loads((server.out / "run.json").read_text())["identity"]["judge"] == "Ana"
    assert page.complaints()
