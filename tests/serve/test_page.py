"""The page in a browser: seen, clicked, typed into, read aloud as far as axe can tell, and attacked by names."""

import http.client
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("selenium")

from helpers.ports import free_port
from serve.browser import AXE, CHROMIUM, DRIVER, Browser
from serve.cluster import until_answer
from serve.running import KEY, READ, Running

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium is not installed: apt-get install chromium-driver"),
]
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci in tests/serve/node")

EVIL = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'
PRODUCTS = {
    "boots": {"kind": "shoes", "price": 0.8},
    "trail shoes": {"kind": "shoes", "price": 0.9},
    "parka": {"kind": "coats", "price": 1.2},
    "rain coat": {"kind": "coats", "price": 1.0},
    "scarf": {"kind": "wool", "price": 0.3},
    EVIL: {"kind": "wool", "price": 0.2, EVIL: EVIL},
}
LIKED = {"AT": "coats", "DE": "shoes", "CH": "wool"}


def visit(server: Running, number: int, seed: int = 0) -> None:
    """Let visitors come to a shop, a hundred at a time, and wait until they are learned; the last 50 still look."""
    rng = np.random.default_rng(seed)
    for start in range(0, number, 100):
        contexts = [
            {"country": str(rng.choice(list(LIKED))), "device": str(rng.choice(["phone", "laptop"])), EVIL: EVIL}
            for _ in range(100)
        ]
        shown = [{name: PRODUCTS[name] for name in map(str, rng.permutation(list(PRODUCTS))[:4])} for _ in contexts]
        requests = [{"context": own, "items": items} for own, items in zip(contexts, shown, strict=True)]
        status, made = server.call("POST", "/v1/bandits/shop/decide_many", {"requests": requests})
        assert status == 200, made
        rewards = []
        for context, one in list(zip(contexts, made["decisions"], strict=True))[: number - start - 50]:
            chance = 0.7 if PRODUCTS[one["arm"]]["kind"] == LIKED[context["country"]] else 0.1
            rewards.append({"id": one["id"], "reward": float(rng.random() < chance)})
        assert server.call("POST", "/v1/bandits/shop/reward_many", {"rewards": rewards})[0] == 200
        until_answer(server, "/v1/bandits/shop", lambda found: found["lag"] == 0)


@pytest.fixture(scope="module")
def shop(server: Running) -> Running:
    spec = {"algorithm": "LinearTS", "expire_after": 3600, "default_reward": 0, "seed": 3}
    assert server.call("PUT", "/v1/bandits/shop", spec)[0] == 201
    visit(server, 600)
    return server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    assert chromium.complaints() == []


@pytest.fixture
def page(browser: Browser, shop: Running) -> Browser:
    """The page of the shop, with its figures, which stay as they are: all that was rewarded is learned."""
    until_answer(shop, "/v1/bandits/shop", lambda own: own["lag"] == 0)
    browser.open(shop.url, "/?bandit=shop")
    browser.log_in(KEY)
    shown(browser)
    return browser


@pytest.fixture(scope="module")
def pictures(pytestconfig: pytest.Config) -> Path:
    made = pytestconfig.rootpath / "results" / "page"
    made.mkdir(parents=True, exist_ok=True)
    return made


def shown(browser: Browser) -> None:
    browser.until(lambda: re.match(r"[\d.]+$", browser.text("#t-reward")), "the mean reward")
    browser.until(lambda: browser.attribute("#state", "data-kind") == "live", "that it is live")


# Login


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_page_may_load_and_run_nothing_but_itself(path: str, server: Running) -> None:
    connection = http.client.HTTPConnection(server.host, server.port)
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy and "unsafe-eval" not in policy
    assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
    assert not re.search(r"(src|href)=\"?(https?:)?//", content) and "innerHTML" not in content
    assert " style=" not in content and not re.search(r"<[a-z][^>]*\son[a-z]+=", content)


def test_a_wrong_key_is_refused_with_a_reason_and_a_right_one_is_let_in(browser: Browser, shop: Running) -> None:
    browser.open(shop.url)
    browser.until(lambda: browser.find("#key").is_displayed(), "the form for the key")
    browser.press("ENTER")
    browser.until(lambda: "Enter a key" in browser.text("#key-error"), "that a key is missing")
    browser.put("#key", "not-the-key")
    browser.press("ENTER")
    browser.until(lambda: "wrong" in browser.text("#key-error"), "that the key is wrong")
    assert browser.attribute("#key", "aria-invalid") == "true"
    assert not browser.find("#app").is_displayed()
    browser.log_in(KEY)
    assert KEY not in browser.driver.page_source
    browser.driver.refresh()
    browser.until(lambda: browser.find("#app").is_displayed(), "the figures after a reload")
    browser.click("#logout")
    browser.until(lambda: browser.find("#key").is_displayed(), "the form after the end")
    browser.driver.refresh()
    browser.until(lambda: browser.find("#key").is_displayed(), "the form after a reload")


# Looks


@needs_axe
@pytest.mark.parametrize(("scheme", "size"), [("light", "laptop"), ("dark", "phone")])
def test_axe_finds_nothing_serious(browser: Browser, shop: Running, pictures: Path, scheme: str, size: str) -> None:
    browser.open(shop.url, "/?bandit=shop", scheme, size)
    browser.until(lambda: browser.find("#key").is_displayed(), "the form for the key")
    browser.keep(pictures / f"login-{scheme}-{size}.png")
    assert browser.findings() == []
    browser.log_in(KEY)
    shown(browser)
    browser.click("#latest button")
    browser.until(lambda: len(browser.all("#latest .why table")) == 2, "why it was decided")
    browser.until(lambda: browser.all("#c-lag svg path"), "the learner's lag")
    browser.click("#eval-go")
    browser.until(lambda: browser.find("#eval-result").is_displayed(), "the evaluation")
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    browser.keep(pictures / f"shop-{scheme}-{size}.png")
    assert browser.findings() == []
    if scheme == "dark":
        return
    for button in browser.all(".head button[aria-pressed]"):
        browser.click(button)
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    browser.keep(pictures / f"tables-{scheme}-{size}.png")
    assert browser.findings() == []


def test_the_theme_can_be_switched_and_is_kept(page: Browser) -> None:
    def background() -> Any:
        return page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    light = background()
    page.click("#theme")
    assert "Light" in page.text("#theme") and background() == light
    page.click("#theme")
    assert "Dark" in page.text("#theme") and background() != light
    page.driver.refresh()
    page.until(
        lambda: page.find("#theme").is_displayed() and "Dark" in page.text("#theme"), "the theme that was chosen"
    )
    page.click("#theme")
    assert "System" in page.text("#theme") and background() == light


# Figures


def test_figures_are_those_of_the_service(page: Browser, shop: Running) -> None:
    found = shop.call("GET", "/v1/bandits/shop/overview?last=5000")[1]
    assert page.text("#t-reward") == f"{found['online']['value']:.3f}"
    assert page.text("#t-base") == f"{found['baseline']['value']:.3f}"
    assert page.text("#t-decisions") == f"{found['bandit']['decisions']:,}"
    assert page.text("#t-pending") == f"{found['bandit']['pending']:,}"
    assert f"mean reward {found['online']['value']:.3f}" in page.text("#c-reward-summary")
    assert f"The latest {found['left_out']} decisions are excluded" in page.text("#c-reward-summary")
    assert len(page.all("#latest tr")) == len(found["latest"])
    assert found["latest"][0]["arm"] in page.text("#latest tr td.name")
    keys = page.texts("#learned tbody th")
    assert keys == [one["key"] for one in found["learned"]][: len(keys)] and "country" in keys
    for option in page.all("#last option"):  # the service takes whatever the page offers
        assert shop.call("GET", f"/v1/bandits/shop/overview?last={option.get_attribute('value')}")[0] == 200
    most = int(page.attribute("#eval-last", "max"))
    assert shop.call("POST", "/v1/bandits/shop/evaluate", {"policy": "random", "last": most})[0] == 200


def test_a_decision_through_the_api_appears_by_itself(page: Browser, shop: Running) -> None:
    before = int(page.text("#t-decisions").replace(",", ""))
    items = {"a new item": {"kind": "wool"}}
    made = shop.call("POST", "/v1/bandits/shop/decide", {"context": {"country": "AT"}, "items": items})[1]
    page.until(lambda: page.text("#t-decisions") == f"{before + 1:,}", "one decision more")
    page.until(lambda: page.attribute("#latest tr", "data-id") == made["id"], "the decision in the list")
    assert "a new item" in page.text("#latest tr") and "pending" in page.text("#latest tr")
    shop.call("POST", "/v1/bandits/shop/reward", {"id": made["id"], "reward": 0.25})
    page.until(lambda: "0.250" in page.text("#latest tr"), "its reward")


def test_a_new_bandit_can_be_chosen(page: Browser, shop: Running) -> None:
    spec = {"arms": ["left", "right"], "algorithm": "LinearTS"}
    assert shop.call("PUT", "/v1/bandits/other", spec)[0] in (200, 201)
    page.until(lambda: page.all("#bandit option[value=other]"), "the new bandit in the list")
    page.choose("#bandit", "other")
    page.until(lambda: "left, right" in page.text("#facts"), "its arms")
    page.until(lambda: page.text("#start h2") == "No decision yet", "what to do first")
    assert not page.find("#reward").is_displayed() and page.find("#settings").is_displayed()
    assert page.driver.title == "other · lim2"
    page.choose("#bandit", "shop")
    shown(page)
    assert page.all("#start h2") == []


def test_names_stay_text(page: Browser) -> None:
    assert EVIL in page.text("#c-shares .legend")
    assert EVIL in page.texts("#learned tbody th")

    def rows() -> list[str | None]:
        return [row.get_attribute("data-id") for row in page.all("#latest tr") if EVIL in row.text]

    page.click(f'#latest tr[data-id="{page.steady(rows)[0]}"] button')
    page.until(lambda: len(page.all("#latest .why table")) == 2, "why it was decided")
    assert EVIL in page.text("#latest .why")
    assert page.all("img") == [] and len(page.all("script")) == 1
    assert page.driver.execute_script("return window.harmed === undefined")
    blocked = "try { document.body.innerHTML = '<b>x</b>'; return false } catch (error) { return error.name }"
    assert page.driver.execute_script(blocked) == "TypeError"
    page.console()  # the refusal above


# Keyboard


def test_everything_is_reached_and_worked_by_the_keyboard(page: Browser) -> None:
    page.driver.refresh()
    shown(page)
    page.press("TAB")
    assert page.driver.switch_to.active_element.text == "Skip to the figures"
    page.tab_to("#bandit")
    plot = page.tab_to("#c-reward .plot")
    outline = "return getComputedStyle(arguments[0]).outlineStyle"
    assert page.driver.execute_script(outline, plot) == "solid"
    assert page.find("#c-reward .tip").is_displayed()
    assert (plot.get_attribute("aria-valuetext") or "").endswith("no estimate yet")  # the last ones still wait
    last = int(plot.get_attribute("aria-valuenow") or 0)
    page.press("ARROW_LEFT", "ARROW_LEFT")
    assert int(plot.get_attribute("aria-valuenow") or 0) == last - 2
    page.press("HOME", *["ARROW_RIGHT"] * 20)
    found = plot.get_attribute("aria-valuetext") or ""
    assert plot.get_attribute("aria-valuenow") == "20" and "Bandit, mean so far" in found and "Baseline" in found
    page.press("ESCAPE")
    assert not page.find("#c-reward .tip").is_displayed()
    page.tab_to("#shares .head button")
    page.press("ENTER")
    page.until(lambda: page.find("#c-shares table").is_displayed(), "the table of shares")
    page.press("ENTER")
    page.tab_to("#latest button")
    page.press("ENTER")
    page.until(lambda: len(page.all("#latest .why table")) == 2, "why it was decided")
    page.press("ENTER")
    assert page.all("#latest .why") == []
    page.tab_to("#policy", most=80)
    page.press("r", "TAB")  # Random; its algorithm cannot be chosen
    assert page.driver.switch_to.active_element.get_attribute("id") == "eval-last"
    page.press("ENTER")
    page.until(lambda: "Random choice" in page.text("#eval-result"), "the evaluation")


def test_only_what_matters_is_announced(page: Browser, shop: Running) -> None:
    watch = "document.querySelectorAll('[role=status], [role=alert], [aria-live]')"
    script = f"window.said = []; for (const one of {watch}) new MutationObserver(() => said.push(one.textContent))"
    page.driver.execute_script("clearInterval(state.timer)")  # a service that answers late would be announced as lost
    page.driver.execute_script(f"{script}.observe(one, {{childList: true, subtree: true, characterData: true}})")
    before = page.text("#t-decisions")
    visit(shop, 100, seed=7)
    page.until(lambda: page.text("#t-decisions") != before, "more decisions")
    assert page.driver.execute_script("return said") == []
    page.choose("#bandit", "personalizer")
    page.until(lambda: page.driver.execute_script("return said.at(-1)") == "Showing personalizer.", "what it shows")


# Forms


def test_another_policy_is_evaluated(page: Browser, shop: Running) -> None:
    page.choose("#policy", "algorithm")
    page.choose("#algorithm", "LinearTS")
    page.put("#eval-last", "500")
    page.click("#eval-go")
    page.until(lambda: page.find("#eval-result").is_displayed(), "the evaluation")
    body = {"policy": "random", "last": 500}
    page.choose("#policy", "random")
    page.click("#eval-go")
    page.until(lambda: "Random choice" in page.text("#eval-result .verdict"), "the evaluation of random choice")
    found = shop.call("POST", "/v1/bandits/shop/evaluate", body)[1]
    assert f"{found['snips']['value']:.3f}" in page.text("#eval-result table")
    page.put("#eval-last", "2.5")
    page.click("#eval-go")
    page.until(lambda: "whole number" in page.text("#eval-error"), "what is wrong")
    assert page.find("#eval-last").get_attribute("aria-invalid") == "true"


def test_settings_are_changed_and_refusals_shown(page: Browser, shop: Running) -> None:
    page.put("#expire_after", "1800")
    page.click("#change button")
    page.until(lambda: page.text("#change-note") == "Saved.", "that it is saved")
    assert shop.call("GET", "/v1/bandits/shop")[1]["spec"]["expire_after"] == 1800
    page.until(lambda: "changed" in page.text("#audit-list tbody"), "the change in the audit log")
    assert "expire_after 1800" in page.text("#audit-list tbody") and "api_key" in page.text("#audit-list tbody")
    page.put("#expire_after", "-5")
    page.click("#change button")
    page.until(lambda: page.text("#change-error"), "why it is refused")
    assert shop.call("GET", "/v1/bandits/shop")[1]["spec"]["expire_after"] == 1800


def test_a_key_that_reads_sees_all_and_changes_nothing(browser: Browser, shop: Running) -> None:
    browser.open(shop.url, "/?bandit=shop")
    browser.log_in(READ)
    shown(browser)
    assert "change nothing" in browser.text("#change-note")
    assert "read_key: role read" in browser.text("#facts")
    assert not browser.find("#expire_after").is_enabled()
    assert not browser.find("#audit").is_displayed() and not browser.find("#audit-tab").is_displayed()
    browser.click("#eval-go")
    browser.until(lambda: browser.find("#eval-result").is_displayed(), "the evaluation")
    browser.click("#logout")
    browser.log_in(KEY)
    browser.until(lambda: browser.find("#expire_after").is_enabled(), "settings that can be changed")


def test_the_share_of_the_rule_is_changed_after_a_question(page: Browser, shop: Running) -> None:
    def answered(accept: bool) -> str:
        page.click("#change button[type=submit]")
        alert = page.driver.switch_to.alert
        text = alert.text
        alert.accept() if accept else alert.dismiss()
        return str(text)

    def spec() -> Any:
        return shop.call("GET", "/v1/bandits/shop")[1]["spec"]

    page.choose("#control_rule", "first")
    page.put("#control_share", "100")
    assert "decide for 100%" in answered(False) and spec()["control"] is None
    answered(True)
    page.until(lambda: "Shadow" in page.text("#ruled"), "that the rule decides for all")
    assert spec()["control"] == {"rule": "first", "share": 1.0}
    page.choose("#control_rule", "")
    assert "End the control group" in answered(True)
    page.until(lambda: not page.find("#ruled").is_displayed(), "that the bandit decides again")
    assert spec()["control"] is None


# Connection


def test_it_can_be_paused(page: Browser, shop: Running) -> None:
    before = page.text("#t-decisions")
    page.click("#pause")
    assert page.text("#state") == "Refresh stopped" and page.driver.execute_script("return state.source === null")
    visit(shop, 100, seed=9)
    assert page.text("#t-decisions") == before
    page.click("#pause")
    page.until(lambda: page.text("#t-decisions") != before, "what came meanwhile")


def test_without_events_it_asks(browser: Browser, shop: Running) -> None:
    browser.open(shop.url, "/?bandit=shop")
    browser.command("Network.setBlockedURLs", urls=["*/events"])
    browser.log_in(KEY)
    browser.until(lambda: browser.attribute("#state", "data-kind") == "poll", "that it asks")
    before = browser.text("#t-decisions")
    visit(shop, 100, seed=8)
    browser.until(lambda: browser.text("#t-decisions") != before, "more decisions")
    browser.command("Network.setBlockedURLs", urls=[])


@needs_axe
def test_calls_are_tried_by_their_examples(browser: Browser, server: Running, pictures: Path) -> None:
    def send(head: str, status: str) -> None:
        found = next(one for one in browser.all("details") if one.text.startswith(head))
        browser.click(found.find_element("css selector", "summary"))
        browser.click(found.find_element("css selector", "button"))
        answer = found.find_element("css selector", "pre")
        browser.until(lambda: answer.text.startswith(status), f"{status} of {head}")

    browser.open(server.url, "/docs", scheme="dark", size="phone")
    browser.until(lambda: browser.all("details"), "the calls")
    browser.put("#key", KEY)
    send("PUT/v1/bandits/{name} ", "201 Created")
    send("POST/v1/bandits/{name}/decide ", "200 OK")
    send("POST/v1/bandits/{name}/reward ", "200 OK")
    send("POST/personalizer/v1.0/rank", "201 Created")
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert "`" not in browser.text("main")
    browser.keep(pictures / "docs.png")
    assert browser.findings() == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_from_nothing_to_a_lost_connection(browser: Browser, tmp_path: Path, pictures: Path) -> None:
    """What the page says to a beginner works when it is pasted; and when the service goes, it says so."""

    def run_line() -> None:
        line = browser.text("#start pre")
        command = ["sh", "-c", f"{line} --fail-with-body -sS"]
        environment = {**os.environ, "LIM2_API_KEY": KEY}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def begin(title: str) -> None:
        browser.until(lambda: browser.text("#start h2") == title, title)
        browser.keep(pictures / f"{title.lower().replace(' ', '-')}.png")
        run_line()

    port = free_port()
    with Running(tmp_path / "data", port=port) as fresh:
        browser.open(fresh.url)
        browser.log_in(KEY)
        browser.until(lambda: len(browser.all("#start pre")) == 2, "two ways to begin")
        browser.keep(pictures / "new.png")
        # The service always has Personalizer's bandit; a page that sees none must not fail, either.
        browser.driver.execute_script(
            "window.real = fetch; fetch = (url, ...rest) => url.startsWith('/v1/bandits?') "
            '? Promise.resolve(new Response(\'{"bandits": [], "next": null, "total": 0}\')) : real(url, ...rest); '
            "list()"
        )
        browser.until(lambda: browser.text("#start h2") == "No bandit yet", "that there is no bandit")
        assert not browser.find("#full").is_displayed()
        run_line()
        browser.driver.execute_script("fetch = real")
        browser.until(lambda: browser.all("#bandit option[value=banner]"), "the bandit that was made")
        browser.choose("#bandit", "banner")
        begin("No decision yet")
        begin("No reward yet")
        browser.until(lambda: not browser.all("#start h2"), "that there is all")
        fresh.kill()
        browser.until(lambda: browser.find("#lost").is_displayed(), "that the connection is lost")
        assert "old" in browser.text("#lost") and browser.text("#state") == "Connection lost"
        assert re.search(r"\d\d:\d\d:\d\d", browser.text("#lost"))
        browser.keep(pictures / "lost.png")
    with Running(tmp_path / "data", port=port) as again:
        browser.until(
            lambda: browser.attribute("#state", "data-kind") == "live" and not browser.find("#lost").is_displayed(),
            "that it is live again",
        )
        again.kill()  # it would wait for the page
