"""The page of `python -m spacy bcrf review` in a headless Chromium, by mouse and keyboard."""

import itertools
import json
import re

import pytest
import spacy
from commands import command
from spacy.tokens import Doc

from spacy_bcrf.readers.doc_files import read_docs, write_all
from spacy_bcrf.serve.review import fill_page

pytest.importorskip("selenium", reason="needs the extra browser")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

pytestmark = pytest.mark.slow

LABELS = ["LOC", "PER", "ORG"]
LOC, PER, ORG = range(3)
KEYS = itertools.count()
"""Each page has its own key, because pages share the browser's storage."""


def document(text, spans=(), alternatives=(), errors=0.0, entropy=0.0):
    """Make a document of words. spans: (first word, one past the last, label, p, is predicted)."""
    words = list(re.finditer(r"\S+", text))
    return {
        "text": text,
        "starts": [word.start() for word in words],
        "ends": [word.end() for word in words],
        "spans": [list(span) for span in spans],
        "alternatives": [list(span) for span in alternatives],
        "errors": errors,
        "entropy": entropy,
    }


DOCUMENTS = [
    document(
        "👩‍👧 Ann Lee saw New  York 😀 in May",
        [(1, 3, PER, 0.9, True), (4, 6, LOC, 0.6, True), (8, 9, PER, 0.2, False)],
        [(4, 6, ORG, 0.3), (5, 6, LOC, 0.05)],
        errors=1.0,
        entropy=0.1,
    ),
    document("Nothing here", errors=0.1, entropy=0.3),
    document("Oslo is big", [(0, 1, LOC, 0.8, True)], errors=0.2, entropy=0.2),
]


class Page:
    """A page in the browser. saved: the file that its Save button writes."""

    def __init__(self, driver, folder, documents=DOCUMENTS, labels=LABELS, overlap=False):
        self.driver, self.folder = driver, folder
        self.saved = folder / "texts.reviewed.jsonl"
        data = {
            "key": f"{folder}{next(KEYS)}",
            "title": "texts",
            "file": self.saved.name,
            "labels": labels,
            "overlap": overlap,
            "maxAlternatives": 5,
            "documents": documents,
        }
        (folder / "page.html").write_text(fill_page(data), encoding="utf8")
        behavior = {"behavior": "allow", "downloadPath": str(folder)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", behavior)
        self.load()

    def load(self):
        self.driver.get((self.folder / "page.html").as_uri())

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def press(self, keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def click(self, selector):
        self.find(selector).click()

    def select_words(self, first, last, index=0):
        """Select text by dragging over words."""
        token = f'[data-index="{index}"] [data-token="{{}}"]'.format
        start, end = self.find(token(first)), self.find(token(last))
        actions = ActionChains(self.driver)
        left = -start.size["width"] // 2 + 1
        actions.move_to_element_with_offset(start, left, 0).click_and_hold()
        actions.move_to_element_with_offset(end, end.size["width"] // 2 - 1, 0).release().perform()

    def spans(self, index=0):
        """Return the shown spans of a document as (text, status)."""
        found = self.find_all(f'[data-index="{index}"] .entity')
        return [(read_words(span), read_status(span)) for span in found]

    def current(self):
        (found,) = self.find_all("[aria-current]") or [None]
        return found and read_words(found)

    def shown(self):
        """Return the numbers of the shown documents."""
        articles = "[...document.querySelectorAll('article')]"
        return self.driver.execute_script(f"return {articles}.map(a => Number(a.dataset.index))")

    def load_work(self, *paths):
        """Load saved work, and return the message."""
        files = self.find("#files")
        self.driver.execute_script("arguments[0].hidden = false", files)
        files.send_keys("\n".join(map(str, paths)))
        message = self.find("#message")
        WebDriverWait(self.driver, 5).until(lambda _: message.text.startswith("Loaded"))
        return message.text

    def save(self):
        """Save and return the records."""
        self.click("#save")
        WebDriverWait(self.driver, 10).until(lambda _: self.saved.exists())
        return [json.loads(line) for line in self.saved.read_text(encoding="utf8").splitlines()]

    def convert(self):
        """Convert the saved records and return the documents."""
        command("convert")(self.saved, self.folder / "out.spacy", "--strict")
        return list(read_docs(self.folder / "out.spacy", spacy.blank("xx").vocab))


def read_words(span):
    words = span.find_elements(By.CSS_SELECTOR, "[data-token]")
    return " ".join(word.text for word in words)


def read_status(span):
    return (set(span.get_attribute("class").split()) & {"open", "accepted", "rejected"}).pop()


@pytest.fixture
def page(driver, tmp_path):
    page = Page(driver, tmp_path)
    yield page
    assert not driver.get_log("browser")


def test_keys(page):
    page.press("j")
    assert page.current() == "Ann Lee"
    page.press("a3jr")  # accepting and rejecting go on to the next open entity
    assert page.spans() == [("Ann Lee", "accepted"), ("New York", "accepted"), ("May", "rejected")]
    assert page.current() == "Oslo"
    page.press("r")
    assert page.spans(2) == [("Oslo", "rejected")]
    page.press("u")
    assert page.spans(2) == [("Oslo", "open")]
    page.press("kk")
    assert page.current() == "May"
    (record,) = page.save()
    text = DOCUMENTS[0]["text"]
    assert record["text"] == text and not record["complete"]
    found = [(text[span["start"] : span["end"]], span["label"]) for span in record["spans"]]
    assert found == [("Ann Lee", "PER"), ("New  York", "ORG")]
    assert [text[s["start"] : s["end"]] for s in record["rejected"]] == ["May"]
    (doc,) = page.convert()
    assert doc.text == text
    assert [(ent.text, ent.label_) for ent in doc.ents] == [
        ("Ann Lee", "PER"),
        ("New  York", "ORG"),
    ]
    assert [(span.text, span.label_) for span in doc.spans["incorrect_spans"]] == [("May", "PER")]
    assert doc[0].ent_iob_ == "" and doc[-1].ent_iob_ == ""


def test_mouse(page):
    page.click('[data-key="1:3:1"]')
    page.click('[data-action="reject"]')
    page.click('[data-key="4:6:0"]')
    assert [b.get_attribute("data-alternative") for b in page.find_all("[data-alternative]")] == [
        "4:6:2",
        "5:6:0",
    ]
    page.click('[data-alternative="5:6:0"]')
    page.click('[data-index="2"] [data-complete]')
    assert page.find("#progress").text == "3 decided, 1 open, 1 of 3 documents complete"
    first, last = page.save()
    assert [first["complete"], last["complete"]] == [False, True]
    doc, complete = page.convert()
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("York", "LOC")]
    assert [span.text for span in doc.spans["incorrect_spans"]] == ["Ann Lee"]
    assert [token.ent_iob_ for token in complete] == ["B", "O", "O"]


def test_added_text(page):
    page.select_words(5, 6)  # the second word is beyond the end of an open span
    page.press("2")
    assert page.spans() == [("Ann Lee", "open"), ("York 😀", "accepted"), ("May", "open")]
    page.press("u")
    assert page.spans()[1] == ("New York", "open")
    page.select_words(0, 0, index=1)
    WebDriverWait(page.driver, 5).until(lambda _: "New entity" in page.find("#panel").text)
    page.click('[data-label="2"]')
    assert page.spans(1) == [("Nothing", "accepted")]
    (record,) = page.save()
    assert record["spans"] == [{"start": 0, "end": 7, "label": "ORG"}]


def test_undo_restores_each_earlier_state(page):
    page.press("jakr")
    for status in ("rejected", "accepted", "open"):
        assert page.spans()[0] == ("Ann Lee", status)
        page.press("u")
    assert page.find("#message").text == "Nothing to undo."


def test_a_rejected_span_stays_below_an_added_one_that_overlaps_it(page):
    page.click('[data-key="4:6:0"]')
    page.press("r")
    page.select_words(5, 5)
    page.press("1")
    assert ("New York", "rejected") not in page.spans()
    chip = page.find(".hidden-spans .entity")
    assert "New York" in chip.text and read_status(chip) == "rejected"
    (record,) = page.save()
    assert len(record["spans"]) == len(record["rejected"]) == 1
    chip.click()
    page.press("a")
    assert page.spans()[1] == ("New York", "accepted")
    assert not page.find_all(".hidden-spans")


def test_complete_accepts_predictions_and_leaves_suggestions_out(page):
    page.press("jc")
    assert page.spans() == [("Ann Lee", "accepted"), ("New York", "accepted")]
    page.press("u")
    assert page.spans()[2] == ("May", "open")
    page.press("jjjc")  # a document without spans
    assert page.find("#progress").text.endswith("1 of 3 documents complete")
    (record,) = page.save()
    assert record == {
        "text": "Nothing here",
        "tokens": ["Nothing", "here"],
        "spans": [],
        "rejected": [],
        "complete": True,
    }


def test_work_stays_in_the_browser_for_the_same_page(page, tmp_path):
    page.press("ja")
    page.load()
    assert page.spans()[0] == ("Ann Lee", "accepted")
    page.press("u")
    assert page.find("#message").text == "Nothing to undo."
    other = Page(page.driver, tmp_path)
    assert other.spans()[0] == ("Ann Lee", "open")
    other.click("#save")
    assert other.find("#message").text == "Nothing to save yet."


def test_a_browser_that_stores_nothing_warns(page):
    full = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }"
    page.driver.execute_script(full)
    page.press("ja")
    assert page.find("#message").text.startswith("The browser cannot store your work.")
    assert page.spans()[0] == ("Ann Lee", "accepted")
    assert len(page.save()) == 1


def test_two_tabs_of_a_page_share_the_work(page):
    page.press("ja")
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.load()
    assert page.spans()[0] == ("Ann Lee", "accepted")
    page.press("jr")
    page.driver.close()
    page.driver.switch_to.window(first)
    WebDriverWait(page.driver, 5).until(lambda _: page.spans()[0] == ("Ann Lee", "rejected"))


def test_filters(page):
    assert page.shown() == [0, 1, 2]
    boxes = page.find_all("#labels input")
    boxes[PER].click()
    assert page.shown() == [0, 2]
    page.press("j")
    assert page.current() == "New York"
    boxes[LOC].click()
    assert page.shown() == [] and page.find("#end").text == "No document passes the filter."
    for box in (boxes[PER], boxes[LOC]):
        box.click()
    high = page.find("#high")
    high.clear()
    high.send_keys("70\t")
    assert page.shown() == [0]
    dimmed = [read_words(span) for span in page.find_all(".dimmed")]
    assert dimmed == ["Ann Lee"]
    high.clear()
    high.send_keys("100\t")
    Select(page.find("#show")).select_by_value("open")
    assert page.shown() == [0, 2]
    page.press("ja")
    assert [read_words(span) for span in page.find_all(".dimmed")] == ["Ann Lee"]


def test_order(page):
    order = Select(page.find("#order"))
    for value, expected in (("errors", [0, 2, 1]), ("entropy", [1, 2, 0]), ("file", [0, 1, 2])):
        order.select_by_value(value)
        assert page.shown() == expected
    order.select_by_value("entropy")
    page.press("jj")
    assert page.current() == "Oslo"


def test_entities_are_buttons_for_keyboard_and_screen_reader(page):
    entity = page.find('[data-key="8:9:1"] > small')
    assert entity.get_attribute("role") == "button" and entity.get_attribute("tabindex") == "0"
    assert entity.get_attribute("aria-label") == "PER 20%: May, suggested"
    entity.send_keys("\n")
    assert page.current() == "May"
    assert page.driver.switch_to.active_element == page.find("[aria-current] > small")


def test_texts_and_labels_do_nothing(driver, tmp_path):
    hostile = '</script><script>window.hacked=1</script><img/src="x"onerror="window.hacked=1"><!--'
    spans = [(0, 1, 0, 0.9, True)]
    page = Page(driver, tmp_path, [document(hostile, spans)], [hostile])
    page.press("ja")
    assert driver.execute_script("return window.hacked") is None
    assert not page.find_all("img") and len(page.find_all("script")) == 2
    assert page.spans() == [(hostile, "accepted")]
    (record,) = page.save()
    assert record["text"] == hostile and record["spans"][0]["label"] == hostile
    driver.execute_script(
        "const made = document.createElement('script');"
        "made.textContent = 'window.hacked = 1'; document.body.append(made)"
    )
    assert driver.execute_script("return window.hacked") is None
    (log,) = driver.get_log("browser")
    assert "Content Security Policy" in log["message"]


def test_documents_out_of_sight_are_not_rendered(driver, tmp_path):
    text = " ".join(["Ann", *["word"] * 98, "Oslo"])
    spans = [(0, 1, PER, 0.9, True), (99, 100, LOC, 0.8, True)]
    documents = [document(text, spans, entropy=i) for i in range(500)]
    page = Page(driver, tmp_path, documents)
    n = len(page.shown())
    # 100 tokens and the spaces between them, marks, and the head of a document.
    nodes = len(page.find_all("*"))
    assert n <= 40 and nodes < 200 + 130 * n
    driver.execute_script("arguments[0].scrollIntoView()", page.find("#end"))
    WebDriverWait(driver, 5).until(lambda _: len(page.shown()) > n)
    Select(page.find("#order")).select_by_value("entropy")
    page.press("j")
    assert page.find(".current").get_attribute("data-index") == "499"


def test_each_decision_takes_one_key(driver, tmp_path):
    words = " ".join(f"w{i}" for i in range(50))
    spans = [(i, i + 1, PER, 0.5, True) for i in range(50)]
    page = Page(driver, tmp_path, [document(words, spans), document(words, spans)])
    page.press("j" + "ar" * 50)
    assert page.find("#progress").text.startswith("100 decided, 0 open")
    statuses = [status for _, status in page.spans(0) + page.spans(1)]
    assert statuses == ["accepted", "rejected"] * 50


def test_labels_beyond_nine_have_keys(driver, tmp_path):
    labels = [f"L{i}" for i in range(60)]
    page = Page(driver, tmp_path, [document("Ann saw", [(0, 1, 0, 0.5, True)])], labels)
    page.press("j")
    keys = [b.get_attribute("aria-keyshortcuts") for b in page.find_all("#panel [data-label]")]
    known = [key for key in keys if key]
    assert len(known) == len(set(known)) == 53 and not set(known) & set("asrbujkc")
    for i in (8, 9, 26, 27, 52):
        actions = ActionChains(driver)
        if known[i].isupper():
            actions.key_down(Keys.SHIFT).send_keys(known[i]).key_up(Keys.SHIFT).perform()
        else:
            actions.send_keys(known[i]).perform()
        assert f"L{i} " in page.find("#panel h2").text


@pytest.mark.parametrize("end", ["Lee", "saw"])
def test_a_drag_from_the_left_edge_of_an_entity_selects(page, end):
    entity, last = page.find('[data-key="1:3:1"]'), {"Lee": 2, "saw": 3}[end]
    target = page.find(f'[data-index="0"] [data-token="{last}"]')
    actions = ActionChains(page.driver)
    actions.move_to_element_with_offset(entity, -(entity.size["width"] // 2), 0).click_and_hold()
    actions.move_to_element_with_offset(target, target.size["width"] // 2 - 1, 0)
    actions.release().perform()
    text = "New entity “Ann Lee”" if end == "Lee" else "New entity “Ann Lee saw”"
    WebDriverWait(page.driver, 5).until(lambda _: text in page.find("#panel").text)
    page.press("3")
    assert page.spans()[0] == (text[12:-1], "accepted")


def test_saved_work_is_loaded_and_merged(page, tmp_path):
    page.press("jar")
    page.click('[data-index="2"] [data-complete]')
    page.save()
    ours = page.saved.rename(tmp_path / "ours.jsonl")
    other = Page(page.driver, tmp_path)
    files = other.find("#files")
    page.driver.execute_script("arguments[0].hidden = false", files)
    files.send_keys(str(ours))
    message = other.find("#message")
    WebDriverWait(page.driver, 5).until(lambda _: message.text == "Loaded 2 documents.")
    expected = [("Ann Lee", "accepted"), ("New York", "rejected"), ("May", "open")]
    assert other.spans() == expected and other.spans(2) == [("Oslo", "accepted")]
    # What two annotators decide alike stays, and a contradiction is a choice.
    theirs = json.loads(ours.read_text(encoding="utf8").splitlines()[0])
    theirs["spans"], theirs["rejected"] = theirs["spans"] + theirs["rejected"], []
    lines = [
        theirs,
        {"text": "unknown"},
        {**theirs, "spans": [{"start": 0, "end": 1, "label": "X"}]},
    ]
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf8")
    files.send_keys(str(path))
    WebDriverWait(page.driver, 5).until(lambda _: "2 lines left out" in message.text)
    assert "theirs.jsonl, line 2: the page has no such text" in message.text
    assert other.spans()[:2] == [("Ann Lee", "accepted"), ("New York", "open")]


GOLD_SUGGESTION = ["gold", "suggestion"]


def suspects(kinds=("type", "boundary", "missing", "spurious")):
    """Make a document with a suspect of each kind, and a gold span that is none."""
    words = [f"w{i}" for i in range(6 * len(kinds) + 1)]
    spans, choices = [], []
    for i, kind in enumerate(kinds):
        gold = [6 * i, 6 * i + 1, PER, 0.2, True, "open"]
        other = [6 * i, 6 * i + 1, LOC, 0.7, False, "open"]
        if kind == "boundary":
            other[1:3] = [6 * i + 3, PER]
        pair = [gold, other]
        if kind in ("missing", "spurious"):
            pair[kind == "spurious"] = None
        spans += [span for span in pair if span]
        keys = [span and ":".join(map(str, span[:3])) for span in pair]
        choices.append({"kind": kind, "names": GOLD_SUGGESTION, "pair": keys})
    spans.append([len(words) - 1, len(words), ORG, 0.9, True, "accepted"])
    found = document(" ".join(words), sorted(spans))
    return {**found, "choices": choices, "score": 1.0, "closes": True}


def decisions(record):
    """Return {first word: label} of the spans of a saved record, and its rejected ones."""
    starts = {span["start"]: record["text"][: span["start"]].count(" ") for span in record["spans"]}
    spans = {starts[span["start"]]: span["label"] for span in record["spans"]}
    return spans, len(record["rejected"])


@pytest.mark.parametrize(
    "keys, expected, n_rejected",
    [
        ("aaaa", {0: "PER", 6: "PER", 18: "PER", 24: "ORG"}, 3),  # keep gold
        ("ssss", {0: "LOC", 6: "PER", 12: "LOC", 24: "ORG"}, 3),  # the suggestion
        ("rrrr", {24: "ORG"}, 6),  # remove both
        ("bsbb", {0: ["LOC", "PER"], 6: "PER", 12: "LOC", 18: "PER", 24: "ORG"}, 1),  # both
    ],
)
def test_a_suspect_takes_one_key(driver, tmp_path, keys, expected, n_rejected):
    page = Page(driver, tmp_path, [suspects(), document("Nothing")])
    page.press("j")
    assert page.find("#panel h2").text == "Another label is more probable"
    versions = [version.text.split("\n")[:2] for version in page.find_all(".versions > div")]
    assert versions == [["gold", "PER 20%"], ["suggestion", "LOC 70%"]]
    assert [mark.text for mark in page.find_all(".versions mark")] == ["w0", "w0"]
    page.press(keys)
    assert page.find("#progress").text.endswith("0 open, 1 of 2 documents complete")
    (record,) = page.save()
    assert decisions(record) == (expected, n_rejected) and record["complete"]
    (doc,) = page.convert()
    assert {e.start: e.label_ for e in doc.ents} == {
        start: label for start, label in expected.items() if isinstance(label, str)
    }
    ambiguous = {span.label_ for span in doc.spans.get("ambiguous_spans", ())}
    assert ambiguous == ({"LOC", "PER"} if keys == "bsbb" else set())


def test_buttons_of_a_suspect(driver, tmp_path):
    page = Page(driver, tmp_path, [suspects()])
    page.press("j")
    for name in ("second", "neither", "first", "second"):
        page.click(f'[data-action="{name}"]')
    (record,) = page.save()
    # Of the missing entity gold keeps nothing, and the suggestion for the spurious one is nothing.
    assert decisions(record)[0] == {0: "LOC", 24: "ORG"}
    page.press("uu")
    assert page.find("#progress").text.endswith("2 open, 0 of 1 documents complete")


def test_both_is_refused_for_entities_that_overlap(driver, tmp_path):
    page = Page(driver, tmp_path, [suspects(["boundary"])])
    page.press("jb")
    assert page.find("#message").text == "Entities of this component do not overlap."
    assert page.find("#progress").text.startswith("1 decided, 2 open")
    page = Page(driver, tmp_path, [suspects(["boundary"])], overlap=True)
    page.press("jb")
    (record,) = page.save()
    assert [(s["start"], s["end"]) for s in record["spans"]][:2] == [(0, 2), (0, 8)]


def test_filter_of_kinds_and_order_of_suspicion(driver, tmp_path):
    first, second = suspects(["type"]), {**suspects(["missing"]), "score": 2.0}
    page = Page(driver, tmp_path, [first, second])
    assert page.shown() == [1, 0]
    boxes = page.find_all("#kinds input")
    assert [box.get_attribute("value") for box in boxes] == ["missing", "type"]
    boxes[0].click()
    assert page.shown() == [0]
    page.press("js")
    assert page.find("#progress").text.startswith("4 decided, 1 open")


def test_1000_suspects_of_a_corpus_take_one_key_each(driver, pipeline, tmp_path):
    vocab, words, ents = spacy.blank("xx").vocab, ["Ann", "saw"] * 10, ["B-PERSON", "O"] * 10
    doc = Doc(vocab, words=words, ents=ents)
    write_all([doc] * 100, tmp_path / "texts.spacy")
    records = [
        {
            **{"doc": i, "text": doc.text, "kind": "type", "score": 1.0, "p_gold": 0.2},
            **{"start": ent.start_char, "end": ent.end_char, "label": ent.label_},
            "p_suggestion": 0.7,
            "suggestion": {"start": ent.start_char, "end": ent.end_char, "label": "LOC"},
        }
        for i in range(100)
        for ent in doc.ents
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "audit.jsonl").write_text(lines, encoding="utf8")
    page = Page(driver, tmp_path)
    command("review")(
        *(pipeline / "model", tmp_path / "texts.spacy", "-p", "ner"),
        *("--suspects", tmp_path / "audit.jsonl", "-o", tmp_path / "page.html"),
    )
    page.load()
    page.press("j")
    for _ in range(20):
        ActionChains(driver).send_keys("as" * 25).perform()
    assert page.find("#progress").text == "2000 decided, 0 open, 100 of 100 documents complete"
    saved = page.save()
    assert [(len(record["spans"]), len(record["rejected"])) for record in saved] == [(10, 10)] * 100
    for corrected in page.convert():
        assert [ent.label_ for ent in corrected.ents] == ["PERSON", "LOC"] * 5


def test_two_annotators_side_by_side(page, tmp_path):
    text = DOCUMENTS[0]["text"]
    ann, york, new_york, may = [
        {"start": text.index(part), "end": text.index(part) + len(part), "label": label}
        for part, label in (
            ("Ann Lee", "PER"),
            ("York", "LOC"),
            ("New  York", "ORG"),
            ("May", "PER"),
        )
    ]
    ours = {"text": text, "spans": [ann, york], "rejected": [may], "complete": True}
    theirs = {"text": text, "spans": [ann, new_york, may], "complete": True}
    for name, record in (("ours", ours), ("theirs", theirs)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record) + "\n", encoding="utf8")
    message = page.load_work(tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl")
    assert message == "Loaded 1 documents. 2 conflicts are open."
    page.press("jj")
    assert page.find("#panel h2").text == "The annotators differ"
    versions = [version.text.split("\n") for version in page.find_all(".versions > div")]
    assert [version[0] for version in versions] == ["ours.jsonl", "theirs.jsonl"]
    assert [mark.text for mark in page.find_all(".versions mark")] == ["York", "New  York"]
    page.press("s")
    texts = [version.text for version in page.find_all(".versions > div")]
    assert texts[0] == "ours.jsonl\nno entity" and "in May" in texts[1]
    page.press("a")
    (record,) = page.save()
    assert record["complete"] and record["spans"] == [ann, new_york]
    page.press("uu")
    assert page.find("#progress").text.endswith("0 of 3 documents complete")


OVERLAPPING = document(
    "the University of New York City campus",
    [
        (1, 6, ORG, 0.9, True),
        (3, 6, LOC, 0.8, True),
        (5, 7, PER, 0.3, True),
        (3, 6, ORG, 0.2, True),
    ],
)


def test_overlapping_marks_are_edited_by_click(driver, tmp_path):
    page = Page(driver, tmp_path, [OVERLAPPING], overlap=True)

    def marks():
        found = "[...document.querySelectorAll('.entity')]"
        return driver.execute_script(f"return {found}.map(e => [e.dataset.key, e.className])")

    # The mark that crosses another one has two pieces.
    keys = [key for key, _ in marks()]
    assert keys.count("5:7:1") == 2 and {"1:6:2", "3:6:0", "3:6:2"} < set(keys)
    assert driver.execute_script("return document.querySelector('.text').textContent").startswith(
        "the University of New York City"
    )
    page.click('[data-token="4"]')
    chosen = page.find("[aria-current]").get_attribute("data-key")
    assert chosen in ("3:6:0", "3:6:2")
    page.click('[data-token="4"]')  # the mark around it
    second = page.find("[aria-current]").get_attribute("data-key")
    assert {chosen, second} == {"3:6:0", "3:6:2"}
    page.press("a")
    page.click('[data-token="1"]')
    assert page.current().startswith("University")
    page.press("a")
    page.select_words(4, 5)
    page.press("1")
    page.click('[data-token="6"]')
    page.press("r")
    (record,) = page.save()
    spans = sorted((record["text"][s["start"] : s["end"]], s["label"]) for s in record["spans"])
    assert ("University of New York City", "ORG") in spans and ("York City", "LOC") in spans
    assert len(spans) == 3
    assert [record["text"][s["start"] : s["end"]] for s in record["rejected"]] == ["City campus"]


def test_a_pipeline_trains_on_saved_work(page, tmp_path):
    page.press("jaar")
    page.click('[data-index="1"] [data-complete]')
    page.save()
    page.convert()
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner")
    corpus = spacy.training.Corpus(tmp_path / "out.spacy", gold_preproc=False)
    nlp.initialize(lambda: corpus(nlp))
    losses = nlp.update(list(corpus(nlp)))
    assert losses["bcrf_ner"] > 0 and "PER" in nlp.get_pipe("bcrf_ner").labels
