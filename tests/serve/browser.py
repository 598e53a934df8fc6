"""The page in a headless Chromium, as the tests drive it."""

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("selenium")

from helpers.waiting import PATIENCE
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
AXE = Path(__file__).parent / "node" / "node_modules" / "axe-core" / "axe.min.js"
SIZES = {"laptop": (1280, 800), "phone": (390, 844)}
T = TypeVar("T")
SWITCHES = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run")


class Browser:
    """A browser with one page."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for switch in (*SWITCHES, *(["--no-sandbox"] if os.geteuid() == 0 else [])):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.driver.set_script_timeout(PATIENCE)
        self.base = ""

    def open(self, base: str, path: str = "/", scheme: str = "light", size: str = "laptop") -> None:
        """Open the page as one who has never been there."""
        self.base = base
        self.command("Network.enable")
        self.command("Network.setBlockedURLs", urls=[])
        self.command("Network.clearBrowserCookies")
        self.look(scheme, size)
        self.driver.get(base + path)
        self.console()

    def look(self, scheme: str, size: str) -> None:
        """Let the page be seen on a laptop or a phone, light or dark."""
        width, height = SIZES[size]
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == "phone",
        )
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.command("Emulation.setEmulatedMedia", features=features)

    def command(self, name: str, **arguments: Any) -> Any:
        """Run a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def find(self, selector: str) -> WebElement:
        """Return the first element of a selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements of a selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Return what is seen of an element."""
        return self.steady(lambda: self.find(selector).text)

    def texts(self, selector: str) -> list[str]:
        """Return what is seen of all elements of a selector."""
        return self.steady(lambda: [element.text for element in self.all(selector)])

    def attribute(self, selector: str, name: str) -> str:
        """Return an attribute of an element; an empty text if it has none."""
        return self.steady(lambda: self.find(selector).get_attribute(name) or "")

    def steady(self, work: Callable[[], T]) -> T:
        """Return the value of work with elements; the page may replace one meanwhile: then they are found again."""
        (value,) = self.until(lambda: (work(),), "elements that stay")
        return value

    def until(self, condition: Callable[[], T], what: str) -> T:
        """Return the first true value of a condition; elements that are missing or replaced are found again."""
        waiting = WebDriverWait(
            self.driver, PATIENCE, poll_frequency=0.05, ignored_exceptions=[StaleElementReferenceException]
        )
        return waiting.until(lambda _: condition(), f"the page never showed {what}")

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        for key in keys:
            self.steady(lambda: self.driver.switch_to.active_element.send_keys(getattr(Keys, key, key)))  # noqa: B023

    def click(self, target: str | WebElement) -> None:
        """Click an element, in the middle of the window: the header covers what is at the top."""

        def clicked() -> None:
            element = self.find(target) if isinstance(target, str) else target
            self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
            element.click()

        self.steady(clicked)

    def tab_to(self, selector: str, most: int = 60) -> WebElement:
        """Move the focus by the Tab key until it is on an element."""
        for _ in range(most):
            wanted = self.find(selector)
            if self.driver.switch_to.active_element == wanted:
                return wanted
            self.press("TAB")
        raise AssertionError(f"the Tab key does not reach {selector}")

    def choose(self, selector: str, value: str) -> None:
        """Choose from a list."""
        self.steady(lambda: Select(self.find(selector)).select_by_value(value))

    def put(self, selector: str, text: str) -> None:
        """Type into a field that may have a value."""

        def typed() -> None:
            field = self.find(selector)
            field.clear()
            field.send_keys(text)

        self.steady(typed)

    def log_in(self, key: str) -> None:
        """Give a key in the form, and wait for the figures."""
        self.until(lambda: self.find("#key").is_displayed(), "the form for the key")
        self.put("#key", key)
        self.press("ENTER")
        self.until(lambda: self.find("#app").is_displayed(), "the figures")

    def findings(self) -> list[str]:
        """Return what axe finds of serious and critical impact."""
        if self.driver.execute_script("return window.axe === undefined"):
            self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        run = (
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0], error => arguments[0](String(error)))"
        )
        found = self.driver.execute_async_script(run)
        assert isinstance(found, dict), found
        return [
            f"{one['id']}: {json.dumps([node['html'][:120] for node in one['nodes'][:3]])}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def complaints(self) -> list[str]:
        """Return errors of the console, but those of answers that the page expects."""
        lines = [one["message"] for one in self.console() if one["level"] == "SEVERE"]
        return [line for line in lines if "Failed to load resource" not in line]

    def console(self) -> list[dict[str, Any]]:
        """Return what the console has said since it was last asked."""
        found: list[dict[str, Any]] = self.driver.execute("getLog", {"type": "browser"})["value"]
        return found

    def keep(self, path: Path) -> None:
        """Write down what is seen, from top to bottom."""
        self.driver.execute_script("scrollTo(0, 0)")
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        made = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()
