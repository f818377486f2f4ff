"""The page at `/`, as a browser shows it and as everybody else gets it."""

import itertools
import json
from html.parser import HTMLParser
from pathlib import Path

from playwright.async_api import Page

from app.api.page.facts import SnapshotFill
from app.api.ports import Phase, Progress
from app.auth.keyring import Keyring
from app.vocabulary import Miss
from tests.http.page_samples import HOSTILE, RECENT, recent
from tests.support.browser import Scheme, Watched, chromium, opened
from tests.support.keys import KEYS, SECRETS, bearer
from tests.support.scripted_engine import CharacterModel
from tests.support.serving import serving

LEAST_CONTRAST = 4.5
"""Of text to its ground, by WCAG 2.2 AA (1.4.3)."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()

NONE = "\N{EN DASH}"

ROUTE, TALK = "/v1/chat/completions", "5f2c9e0d1b7a4c36"
SHOWN = [
    ["08:00:00", ROUTE, "completed (200)", "hit", "31,482", "31,207", "412", "214 ms", TALK],
    ["07:59:28", ROUTE, "completed (200)", "miss: diverged", "1,204", "0", "96", "1.6 s", "c01d77aa93e2f518"],
    ["07:59:11", ROUTE, "refused (429)", NONE, "0", "0", "0", NONE, NONE],
    ["07:57:50", ROUTE, "completed (200)", "miss: empty", "58", "0", "23", "480 ms", TALK],
]
"""The table of `RECENT`."""


async def cells(page: Page) -> list[list[str]]:
    """The rows of the table of requests, as they are read."""
    return [await row.get_by_role("cell").all_inner_texts() for row in await page.locator("tbody tr").all()]


async def check_shown(watched: Watched, url: str, width: int) -> None:
    """Everything is there, has contrast, and needs no scrolling to the side; nothing else was asked for."""
    page = watched.page
    await page.get_by_role("cell").first.wait_for()
    shown = await page.locator("main").inner_text()
    for text in ("ready", "1 h 2 min", "scripted", "4,096 tokens", "3.0 GiB of 4.0 GiB", "6.0 GiB"):
        assert text in shown
    assert "The conversations of late need more" in shown
    assert await page.get_by_role("navigation").get_by_role("link").count() == 4
    fill = page.get_by_role("progressbar", name="Share of the capacity in use")
    assert await fill.evaluate("bar => bar.value") == 0.75
    assert await cells(page) == SHOWN
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = await page.evaluate(CONTRASTS)
    assert len(contrasts) > 30
    assert [text for text, ratio in contrasts if ratio < LEAST_CONTRAST] == []
    assert watched.asked == {
        f"{url}{path}" for path in ("/", "/page/page.css", "/page/page.js", "/page/icon.svg", "/v1/overview")
    }


async def test_the_page_shows_the_server_at_a_glance() -> None:
    """Model, phase, store and requests are there and readable at each width and light; nothing complains."""
    schemes: tuple[Scheme, ...] = ("light", "dark")
    async with serving(recent_requests=RECENT) as served, chromium() as browser:
        for scheme, width in itertools.product(schemes, (390, 1280)):
            async with opened(browser, served.url, width=width, scheme=scheme) as watched:
                await check_shown(watched, served.url, width)
            assert watched.complaints == []


async def test_the_page_follows_a_load_to_its_end() -> None:
    """While the model is loaded there is a bar with a percentage; then, without a reload, the model."""
    async with serving(loading=True) as served, chromium() as browser:
        served.engine.progress = Progress("loading the weights", 42)
        async with opened(browser, served.url) as watched:
            bar = watched.page.get_by_role("progressbar", name="loading the weights: 42 %")
            await bar.wait_for()
            assert await bar.evaluate("bar => bar.value") == 42
            shown = await watched.page.locator("main").inner_text()
            assert "the model is being loaded" in shown
            assert "not loaded yet" in shown
            assert "None yet." in shown

            served.engine.model, served.engine.progress = CharacterModel(), None
            served.engine.phase, served.engine.reason = Phase.READY, ""
            await watched.page.get_by_text("scripted", exact=True).wait_for()
            assert not await bar.is_visible()
        assert watched.complaints == []


async def test_the_page_shows_what_clients_sent_as_text() -> None:
    """Markup in an id makes no element, and runs nothing."""
    async with serving(recent_requests=[recent(session_hash=HOSTILE)]) as served, chromium() as browser:
        async with opened(browser, served.url) as watched:
            await watched.page.get_by_text(HOSTILE).wait_for()
            assert await watched.page.locator("img").count() == 1, "the icon alone"
        assert watched.complaints == []


async def test_the_page_asks_for_a_key_where_one_is_needed() -> None:
    """A wrong key is told of; the right one shows the numbers and no links, and stays in this tab."""
    async with (
        serving(keyring=Keyring(KEYS), public=True) as served,
        chromium() as browser,
        opened(browser, served.url) as watched,
    ):
        page = watched.page
        field = page.get_by_label("API key")
        for name, said in (("ann", "takes the scope metrics or admin"), ("admin", "scripted")):
            await field.fill(SECRETS[name])
            await page.get_by_role("button", name="Show").click()
            await page.get_by_text(said).first.wait_for()
        assert not await field.is_visible()
        await page.reload()
        await page.get_by_text("scripted").first.wait_for()
        assert not await page.get_by_role("navigation").is_visible()


async def test_the_page_explains_every_miss() -> None:
    """In a few words each, for whoever opens them, and as readable as the rest at any width."""
    async with serving() as served, chromium() as browser, opened(browser, served.url, width=390) as watched:
        await watched.page.get_by_text("Why a request misses").click()
        explained = await watched.page.locator("#misses dt").all_inner_texts()
        words = await watched.page.locator("#misses dd").all_inner_texts()
        contrasts = await watched.page.evaluate(CONTRASTS)
        width = await watched.page.evaluate("document.documentElement.scrollWidth")

    assert explained == [str(miss) for miss in Miss]
    assert all(words)
    assert {text for text, _ in contrasts} >= {*explained, *words}
    assert [text for text, ratio in contrasts if ratio < LEAST_CONTRAST] == []
    assert width <= 390


async def test_the_page_tells_a_long_wait_to_the_second() -> None:
    """A first token that took a minute and a half is not said to have taken one."""
    slow = recent(time_to_first_token_seconds=102.2)
    async with (
        serving(recent_requests=[slow]) as served,
        chromium() as browser,
        opened(browser, served.url) as watched,
    ):
        await watched.page.get_by_role("cell").get_by_text("1 min 42 s", exact=True).wait_for()


async def test_the_page_says_when_the_server_has_gone() -> None:
    """What is shown stays, and is said to be old."""
    async with chromium() as browser, serving() as served, opened(browser, served.url) as watched:
        await watched.page.get_by_text("scripted", exact=True).wait_for()
        await watched.page.route("**/v1/overview", lambda route: route.abort())
        await watched.page.get_by_role("status").get_by_text("does not answer").wait_for()
        assert await watched.page.get_by_text("scripted", exact=True).is_visible()


async def test_a_browser_gets_the_page_and_a_program_the_addresses() -> None:
    """The Accept header decides, and caches between are told so."""
    async with serving() as served:
        page = await served.client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        addresses = await served.client.get("/")

        assert page.headers["content-type"].startswith("text/html")
        assert addresses.json()["overview"] == "/v1/overview"
        assert {page.headers["vary"], addresses.headers["vary"]} == {"Accept"}


async def test_the_page_is_locked_down_and_holds_nothing_secret() -> None:
    """Its policy lets it run and load its own files alone; without a key it is only an empty frame."""
    html = {"accept": "text/html"}
    async with serving(keyring=Keyring(KEYS), public=True) as served:
        page = await served.client.get("/", headers=html)
        files = [await served.client.get(f"/page/{name}") for name in ("page.js", "page.css", "icon.svg")]

        for answer in (page, *files):
            assert answer.status_code == 200
            (policy,) = answer.headers.get_list("content-security-policy")
            assert policy == (
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
                " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "scripted" not in answer.text
        assert (await served.client.get("/page/page.py")).status_code == 404
        assert (await served.client.get("/v1/overview", headers=html)).status_code == 401
        found = Addresses()
        found.feed(page.text)
        assert len(found.all) > 5, "the page leads nowhere"
        for path in found.all:
            answer = await served.client.get(path, headers=bearer("scraper"))
            assert answer.status_code in {200, 403}, path


async def test_the_overview_is_whole_and_names_no_session() -> None:
    """One answer has all that the page shows; before the model is loaded, what follows from it is null."""
    async with serving(recent_requests=RECENT) as served:
        whole = (await served.client.get("/v1/overview")).json()
        assert json.dumps(whole, sort_keys=True)
        assert whole["model"] == {
            "name": "scripted",
            "aliases": ["owner/scripted-hub-name"],
            "context_length": 4096,
        }
        assert whole["snapshots"]["entries"] == 7
        assert [one["miss"] for one in whole["requests"]] == [None, "diverged", None, "empty"]
        assert served.spans.get_finished_spans() == (), "an open page makes no traces"
    async with serving(loading=True) as served:
        whole = (await served.client.get("/v1/overview")).json()
        assert (whole["phase"], whole["model"], whole["snapshots"]) == ("loading", None, None)


async def test_a_store_that_is_off_is_said_to_be() -> None:
    """There is no bar of a store that keeps nothing."""
    off = SnapshotFill(enabled=False, entries=0, bytes=0, capacity_bytes=1, recommended_bytes=None)
    async with (
        serving(snapshot_fill=off) as served,
        chromium() as browser,
        opened(browser, served.url) as watched,
    ):
        await watched.page.locator("#fill").get_by_text("off", exact=True).wait_for()
        assert not await watched.page.locator("#fill-bar").is_visible()


class Addresses(HTMLParser):
    """Every address that a page refers to; it fails on a script or style that stands in the page itself."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag != "style"
        assert "style" not in given
        assert not any(name.startswith("on") for name in given)
        assert tag != "script" or given.get("src")
        self.all += [address for name in ("href", "src") if (address := given.get(name))]
