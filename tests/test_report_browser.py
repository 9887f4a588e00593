"""The page of a run in a real browser."""

import base64
import csv
import io
import json
import re
import time

import numpy as np
import pytest

from browsers import Browser
from comparo import Items, Judgement, Question, load_judge, write_report
from inside import Budget, Room, Store, Task, criterion_prompt, guarded, read_record, render
from split import one_short
from test_report import SCRIPT, folder_of, reconfigure, run_folder
from test_report_voices import voices_folder
from test_voices import contexts as texts_of_contexts
from test_voices import told

WIDTHS = (1280, 400)


class Report(Browser):
    """The page of a run."""

    def open(self, path, width=1280, dark=False):
        super().open(path.resolve().as_uri(), width, dark)

    def search(self, text):
        self.run(
            "const s = document.getElementById('search'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            text,
        )

    def view(self, number):
        self.run(
            "const v = document.getElementById('view'); v.value = arguments[0]; v.dispatchEvent(new Event('change'))",
            number,
        )

    def names(self):
        return self.texts("#lines .line bdi")

    def unfold(self):
        self.run("for (const details of every('details')) details.open = true;")


@pytest.fixture
def browser(driver):
    """A window in whose page nothing is wrong when the test ends."""
    browser = Report(driver)
    yield browser
    assert browser.complaints() == []


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    rng = np.random.default_rng(0)
    items = [
        {"id": f"story {k}", "text": f"Number {k}: " + "word " * int(rng.integers(9, 90)), "score_wit": k % 7}
        for k in range(24)
    ]
    judge = load_judge("simulated/soft", scores={f"story {k}": 0.2 * k for k in range(24)}, noise=0.8)
    prompt = criterion_prompt("more surprising", kind="Story")
    folder = tmp_path_factory.mktemp("stories")
    run_folder(folder / "run", items, judge, prompt, "6n", strategy="adaptive")
    reconfigure(
        folder / "run", lambda configuration: configuration | {"command": "comparo rank stories.jsonl --budget 6n"}
    )
    return write_report(folder / "run")


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    items = [
        {"id": f"system {k}", "text": f"Text {k} of {c}.", "context_id": f"c{c}", "context": f"Article {c}"}
        for c in range(30)
        for k in range(6)
    ]
    judge = load_judge("simulated/soft", scores={f"system {k}": 0.5 * k for k in range(6)})
    prompt = criterion_prompt("better", context="Article")
    return write_report(run_folder(tmp_path_factory.mktemp("contexts") / "run", items, judge, prompt, "4n"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    texts = {
        SCRIPT: f"{SCRIPT}<img src=x onerror=alert(2)> & </script><!-- \u2028",
        "</script><img src=x onerror=alert(3)>": "<svg onload=alert(4)>",
        "שלום עולם \u202eabc": "טקסט מימין לשמאל. " * 40,
        "👩‍👩‍👧‍👦 🦊": "🎉" * 300,
        "long": "word " * 20_000,
        "one word": "x" * 100_000,
        "n" * 5000: "its name is long",
        "{{ 7 * 7 }}": "{% raw %}",
    }
    prompt = criterion_prompt(f"{SCRIPT} 🎉 שלום {'w' * 400}", kind="<b>Text</b>")
    folder = tmp_path_factory.mktemp("hostile")
    return write_report(run_folder(folder / "run", texts, load_judge("simulated/soft"), prompt, "6n"))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """2,000 texts of up to 6,000 characters and almost 40,000 judgements of them."""
    rng = np.random.default_rng(0)
    words = np.array(["river", "moon", "<b>", "naïve", "story", "& so on", "surprise", "quietly"])
    items = Items.of({f"story {k}": " ".join(rng.choice(words, rng.integers(50, 900))) for k in range(2000)})
    judge = load_judge("simulated/soft", bias=0.3)
    task = Task(items, criterion_prompt("better"), judge, Budget.of("20n"))
    store = Store(tmp_path_factory.mktemp("large") / "run", task.identity, task.configuration)
    store.add_items(items)
    first = rng.integers(2000, size=40_000)
    second = (first + rng.integers(1, 2000, size=40_000)) % 2000
    pairs = sorted(set(zip(first.tolist(), second.tolist(), strict=True)))
    questions = [Question(items.ids[i], items.ids[j]) for i, j in pairs]
    store.add(Judgement(answer.question, p=answer.p, mass=1.0) for answer in judge.judge(questions))
    store.close()
    return write_report(store.folder)


@pytest.fixture(scope="module")
def voices(tmp_path_factory):
    judges = [told(f"{SCRIPT}{'x' * 60}"), *(told(f"judge {k}", scale=(-1) ** (k == 3)) for k in range(13))]
    folder = tmp_path_factory.mktemp("voices") / "run"
    return write_report(voices_folder(folder, judges, budget="70n", items=texts_of_contexts()))


@pytest.mark.long
@pytest.mark.parametrize("width", one_short(WIDTHS))
def test_who_judged(browser, voices, width):
    browser.open(voices, width, dark=True)
    assert len(browser.texts("#voices .voices tbody tr")) == 14
    assert len(browser.texts("#voices .crossed tbody td")) == 144
    assert SCRIPT in browser.texts("#voices .voices tbody th")[0]
    sizes = "every('#voices td').filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert browser.run(sizes) == 0


@pytest.mark.long
def test_the_script_shows_what_the_page_held(browser, stories):
    browser.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(stories)
        # Scripts of the page are off; what the driver asks still runs.
        held, note = browser.texts("#lines .line"), browser.texts("#wins noscript")
    finally:
        browser.tell("Emulation.setScriptExecutionDisabled", value=False)
    browser.open(stories)
    assert browser.texts("#lines .line") == held
    assert len(held) == 24
    assert note


def test_sorting(browser, stories):
    browser.open(stories)
    by_score = browser.names()
    for column, cell in (("std", ".std"), ("comparisons", ".comparisons"), ("score", ".score")):
        seen = {}
        for _ in range(2):
            browser.click(f"[data-sort={column}]")
            direction = browser.run(f"document.querySelector('th{cell}').getAttribute('aria-sort')")
            values = [float(text.replace("−", "-")) for text in browser.texts(f"#lines td{cell}")]
            seen[direction] = values
            assert sorted(browser.names()) == sorted(by_score)
        assert seen["ascending"] == sorted(seen["ascending"])
        assert seen["descending"] == sorted(seen["descending"], reverse=True)
    browser.click("[data-sort=item]")
    assert browser.names()[:3] == ["story 0", "story 1", "story 2"]


@pytest.mark.long
def test_search_in_names_and_texts(browser, stories):
    browser.open(stories)
    browser.search("STORY 17")
    assert browser.names() == ["story 17"]
    assert browser.texts("#count") == ["1 of 24"]
    browser.search("number 5:")
    assert browser.names() == ["story 5"]
    browser.search("no such thing")
    assert browser.names() == []
    browser.search("")
    assert len(browser.names()) == 24


@pytest.mark.long
def test_a_text_opens_and_closes(browser, stories):
    browser.open(stories)
    name = browser.names()[0]
    browser.click("#lines .line button")
    (opened,) = browser.texts("#lines .opened")
    assert opened.startswith(f"Number {name.split()[1]}: word")
    assert "People's scores: wit" in opened
    assert re.search(r"of 100[^:]*: story \d", opened)
    assert browser.run("document.querySelector('#lines button').getAttribute('aria-expanded')") == "true"
    browser.click("#lines .line button")
    assert browser.texts("#lines .opened") == []


def background(browser):
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])


@pytest.mark.long
def test_dark_and_light(browser, stories):
    browser.open(stories)
    assert background(browser) == 3 * 255
    browser.click("#theme")
    assert background(browser) < 150
    assert browser.texts("#theme") == ["Light"]
    browser.open(stories, dark=True)
    assert background(browser) < 150
    browser.click("#theme")
    assert background(browser) == 3 * 255
    browser.tell("Emulation.setEmulatedMedia", media="print")
    browser.click("#theme")
    assert background(browser) == 3 * 255


@pytest.mark.long
def test_wins(browser, stories):
    browser.open(stories)
    data = json.loads(browser.run("document.getElementById('data').textContent"))
    asked = data["judgements"]
    won = {}
    for i, j, p in zip(asked["first"], asked["second"], asked["p"], strict=True):
        won.setdefault((i, j), []).append(p)
        won.setdefault((j, i), []).append(1 - p)
    rows = browser.matrix()
    seen = browser.run("every('#matrix td:not(.expected)').filter(c => c.innerText).length")
    assert seen == sum(i < 10 and j < 10 for i, j in won)
    assert len(rows) == 11
    for (i, j), values in won.items():
        if i < 10 and j < 10:
            assert float(rows[i + 1][j + 1]) == pytest.approx(100 * np.mean(values), abs=0.51)


@pytest.mark.long
def test_groups_that_nothing_connects_have_no_expected_wins(browser, tmp_path):
    pairs = [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    answers = [Judgement(Question(*pair), p=0.9 if pair[0] in "ac" else 0.2) for pair in pairs]
    browser.open(write_report(folder_of(tmp_path / "run", dict.fromkeys("abcd", "text"), answers)))
    assert "not known" in browser.texts(".result")[0]
    rows = browser.matrix()
    known = [[bool(cell) for cell in row[1:]] for row in rows[1:]]
    assert known == [[column == row ^ 1 for column in range(4)] for row in range(4)]  # a with b, and c with d


@pytest.mark.long
@pytest.mark.parametrize("width", one_short(WIDTHS))
def test_what_did_not_fit_is_said(browser, tmp_path, width):
    items = [
        {"id": f"{c} {k}", "text": f"Text {k} of {c}. " * 99, "context_id": f"c{c}"}
        for c in range(60)
        for k in range(6)
    ]
    folder = run_folder(tmp_path / "run", items, budget="4n", plain=True)
    path = folder / "report.html"
    path.write_text(render(read_record(folder), Room(data=75_000, tables=40_000, judgements=50)), encoding="utf-8")
    browser.open(path, width)
    assert re.search(r"\d+ of 60 contexts", browser.text())
    assert not browser.run("document.getElementById('matrix').hidden")
    last = browser.run("every('#view option').length - 1")
    assert last < 59
    browser.view(last)
    assert browser.names()[0].startswith(f"{last} ")
    browser.click("#lines .line button")
    assert browser.texts("#lines .opened")[0].startswith("Text ")
    assert "more characters" in browser.texts("#lines .opened")[0]
    assert ["run folder" in said for said in browser.texts("#no-wins")] == [True]
    assert not browser.is_wide()


@pytest.mark.long
def test_contexts(browser, contexts):
    browser.open(contexts)
    assert browser.names()[0] == "system 5"
    options = browser.texts("#view option")
    assert options[0] == "the leaderboard"
    assert len(options) == 31
    browser.click("#lines .line button")
    assert "of 30 contexts" in browser.texts("#lines .opened")[0]
    browser.view(7)
    browser.click("#lines .line button")
    assert browser.texts("#lines .opened")[0].startswith(f"Text {browser.names()[0].split()[1]} of 7.")
    browser.click("#context summary")
    assert browser.texts("#context .text") == ["Article 7"]
    browser.click("[data-view='3']")
    assert browser.run("document.getElementById('view').value") == "3"


@pytest.mark.long
@pytest.mark.parametrize("width", one_short(WIDTHS))
def test_the_leaderboard_its_wins_and_the_lengths(browser, contexts, stories, width):
    browser.open(contexts, width)
    assert browser.names() == [f"system {k}" for k in (5, 4, 3, 2, 1, 0)]
    wins = [[float(cell) for cell in row[1:] if cell] for row in browser.matrix()[1:]]
    assert [len(row) for row in wins] == [5] * 6
    assert min(wins[0]) > 50 > max(wins[-1])  # the best beats all, all beat the last
    browser.open(stories, width)
    shape = "const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.left, r.right, r.height]"
    left, right, height = browser.run(shape, "#lengths .points")
    assert 0 <= left < right <= width
    assert height > 50
    drawn = browser.run("document.querySelector('#lengths .points').getAttribute('d')")
    assert drawn.count("M") == len(browser.names())


@pytest.mark.parametrize("width", one_short(WIDTHS))
def test_hostile_texts_break_nothing(browser, hostile, width):
    browser.open(hostile, width)
    browser.run("for (const button of every('#lines .line button')) button.click();")
    assert SCRIPT in browser.names()
    assert "👩‍👩‍👧‍👦 🦊" in browser.names()
    assert browser.texts("h1")[0].startswith(f"Which <b>Text</b> is {SCRIPT} 🎉 שלום")
    assert not browser.is_wide()
    assert browser.run("every('img, svg[onload], b, iframe').length") == 0
    assert "80,000 more characters" in browser.driver.page_source
    browser.search("<script>")
    assert browser.names() == [SCRIPT]


@pytest.mark.long
@pytest.mark.parametrize("width", one_short(WIDTHS))
@pytest.mark.parametrize("page", one_short(["contexts", "stories", "large", "voices"]))
def test_no_sideways_scrolling(browser, page, width, request):
    browser.open(request.getfixturevalue(page), width)
    browser.unfold()
    assert not browser.is_wide()


@pytest.mark.long
def test_the_large_page_is_small(large):
    assert large.stat().st_size < 5_000_000


@pytest.mark.long
def test_the_large_page_is_soon_usable(browser, large):
    # The time of the page's own thread, which other work on the machine does not change.
    browser.tell("Performance.enable", timeDomain="threadTicks")
    browser.open(large)
    metrics = browser.tell("Performance.getMetrics")["metrics"]
    browser.tell("Performance.disable")
    (seconds,) = (one["value"] for one in metrics if one["name"] == "TaskDuration")
    assert 0 < seconds < 2
    assert len(browser.names()) == 100
    browser.search("story 1999")
    browser.click("[data-sort=std]")
    assert browser.names() == ["story 1999"]
    browser.search("")
    browser.click("#more")
    assert len(browser.names()) == 600


def file_name(browser):
    """How the names of saved files begin: with the page's title, in letters and digits."""
    return f"comparo-{re.sub('[^A-Za-z0-9]+', '-', browser.driver.title)[:60].removesuffix('-')}"


def saved(browser, folder, selector, name):
    """The file that a button saves, once it is there."""
    browser.tell("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.unfold()
    browser.driver.find_element("css selector", selector).click()  # as a person: a script may save ten files only
    path, end = folder / name, time.monotonic() + 30
    while not (path.exists() and path.stat().st_size) and time.monotonic() < end:  # Chromium reserves the name first
        time.sleep(0.05)
    return path.read_text(encoding="utf-8-sig")


@pytest.mark.long
def test_the_command_is_copied_and_everything_saved(browser, stories, tmp_path):
    browser.open(stories)
    buttons = browser.driver.find_elements("css selector", "#copy, .steps [data-copy]")
    assert buttons
    for button in buttons:
        button.click()
    assert set(browser.texts("#copy, .steps [data-copy]")) == {"Copied"}
    name = file_name(browser)
    assert re.fullmatch(r"comparo-[\w-]+", name)
    assert len(json.loads(saved(browser, tmp_path, "#save", f"{name}.json"))["candidates"]["item"]) == 24


@pytest.mark.long
@pytest.mark.parametrize("page", one_short(["stories", "contexts", "voices"]))
def test_every_table_is_saved_as_csv_and_json(browser, page, request, tmp_path):
    path = request.getfixturevalue(page)
    browser.open(path)
    name = file_name(browser)
    tables = browser.run("every('[data-save][data-type=csv]').map(b => b.dataset.save)")
    assert {"ranking", "trust", "matrix", "judgements", "settings"} <= set(tables)
    assert ("voices" in tables, "crossed" in tables) == (page == "voices",) * 2
    assert ("contexts" in tables) == (page != "stories")
    for table in tables:
        browser.open(path)  # a browser lets a page save some files, then it asks
        called = "leaderboard" if table == "ranking" and page != "stories" else table
        text = saved(browser, tmp_path, f"[data-save={table}][data-type=csv]", f"{name}-{called}.csv")
        head, *rows = csv.reader(io.StringIO(text))
        objects = json.loads(saved(browser, tmp_path, f"[data-save={table}][data-type=json]", f"{name}-{called}.json"))
        assert rows
        assert all(len(row) == len(head) for row in rows)
        assert len(objects) == len(rows)


@pytest.mark.long
def test_a_saved_ranking_is_the_ranking_and_no_formula(browser, tmp_path):
    texts = {"=1+1": "@SUM(A1)", "+x": '=HYPERLINK("http://x")', "-5": "-7", "'=q": 'one\ntwo, "three"', "＝a": "t"}
    folder = run_folder(tmp_path / "run", texts, load_judge("simulated/soft"), criterion_prompt("better"), "4n")
    browser.open(write_report(folder))
    name = file_name(browser)
    text = saved(browser, tmp_path, "[data-save=ranking][data-type=csv]", f"{name}-ranking.csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["item"]: row["text"] for row in rows} == {guarded(k): guarded(v) for k, v in texts.items()}
    ranking = read_record(folder).ranking
    assert [float(row["score"]) for row in rows] == pytest.approx(sorted(ranking.scores, reverse=True), rel=1e-4)
    text = saved(browser, tmp_path, "[data-save=ranking][data-type=json]", f"{name}-ranking.json")
    assert {row["item"]: row["text"] for row in json.loads(text)} == texts


@pytest.mark.long
@pytest.mark.parametrize("page", one_short(["stories", "contexts"]))
def test_the_two_directions_of_a_pair_add_to_a_hundred(browser, page, request):
    browser.open(request.getfixturevalue(page))
    rows = browser.matrix()
    cells = [row[1:] for row in rows[1:]]
    pairs = [(cells[i][j], cells[j][i]) for i in range(len(cells)) for j in range(i) if cells[i][j]]
    assert pairs
    assert all(int(one) + int(other) == 100 for one, other in pairs)


@pytest.mark.long
@pytest.mark.parametrize("page", one_short(["stories", "contexts", "voices"]))
def test_headings_and_the_ends_of_charts_are_seen_on_a_telephone(browser, page, request):
    browser.open(request.getfixturevalue(page), 400)
    heads = browser.texts(".ranking th")
    assert [re.sub(r"\W", "", head) for head in heads if "\n" not in head and not re.match(r"[−\d]", head)] == [
        *("Rank", "Name", "Tier", "Score", "Uncertainty", "Comparisons"),
    ]
    ends = "every(arguments[0]).map(e => e.getBoundingClientRect()).filter(r => r.width).map(r => [r.left, r.right])"
    found = browser.run(ends, ".ranking th, .ranking th text, .chart text")
    assert len(found) > 8
    assert min(left for left, _ in found) >= 0
    assert max(right for _, right in found) <= 400
    # The axis is above the points: its zero is where the lines' zero is.
    zero = "const z = document.querySelector('.line .zero').getBoundingClientRect().left; "
    ticks = "every('th.picture text').find(t => Number(t.textContent) === 0)"
    apart = browser.run(
        f"{zero} const r = {ticks}.getBoundingClientRect(); return Math.abs((r.left + r.right) / 2 - z)"
    )
    assert apart < 2


@pytest.mark.long
def test_a_number_has_the_beginning_of_its_text_beside_it(browser, tmp_path):
    text = "of a long day at the sea, and of those, who were there: all of us"
    texts = [{"id": k, "text": f"Story {k} {text}"} for k in range(8)]
    folder = run_folder(tmp_path / "run", texts, load_judge("simulated/soft"), criterion_prompt("better"), "6n")
    page = write_report(folder)
    held = re.findall(r'<small class="begun" dir="auto">(.*?)</small>', page.read_text(encoding="utf-8"))
    browser.open(page)
    begun = browser.texts("#lines .begun")
    assert begun == held[:8]  # the script shows what the page held
    assert [int(one.split()[1]) for one in begun] == [int(name) for name in browser.names()]
    assert begun[0].endswith("who were…")
    assert all(begun[place] in name for place, name in enumerate(browser.texts("#matrix th[scope=row]")))


@pytest.mark.long
@pytest.mark.parametrize("page", one_short(["stories", "contexts", "voices"]))
def test_on_paper_all_is_unfolded_and_nothing_can_be_clicked(browser, page, request):
    browser.open(request.getfixturevalue(page), dark=True)
    folded = browser.run("every('details:not([open])').length")
    assert folded > 5
    browser.tell("Emulation.setEmulatedMedia", media="print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("every('details:not([open])').length") == 0
    seen = "every(arguments[0]).filter(e => e.checkVisibility()).length"
    assert browser.run(seen, "nav, .controls, .save, [data-copy], #save, #more, #theme") == 0
    assert browser.run(seen, ".special .settings, .cards details p") > 5
    assert background(browser) == 3 * 255
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("every('details:not([open])').length") == folded
    pdf = base64.b64decode(browser.tell("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 1 < len(re.findall(rb"/Type\s*/Page\b", pdf)) < 40
    assert browser.complaints() == []
