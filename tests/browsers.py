"""Chromium without a screen, for the tests of pages."""

import json
import os
import shutil
import time
from contextlib import contextmanager

import pytest

PATIENCE = 30  # seconds
# What a script of a test may use.
HELP = """
const every = selector => [...document.querySelectorAll(selector)];
const ready = () => document.body.classList.contains('ready');
"""


@contextmanager
def chromium(profile):
    """A driver of Chromium with an empty profile, which keeps its logs; a skip where there is no browser."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    chromedriver = shutil.which("chromedriver")
    if program is None or chromedriver is None:
        pytest.skip("there is no browser: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", dict.fromkeys(("browser", "performance"), "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield driver
    driver.quit()


class Browser:
    """A window of Chromium; `complaints` tells what was wrong in any page since, or since the last time."""

    def __init__(self, driver):
        self.driver, self.window, self.opened = driver, driver.current_window_handle, set()
        self.driver.get("about:blank")
        self.complaints()  # of tests before

    def tell(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def open(self, address, width=1280, dark=False):
        self.driver.switch_to.window(self.window)
        self.width = width
        self.opened.add(address)
        mobile = width < 600
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get("about:blank")
        self.driver.get(address)

    def run(self, script, *arguments):
        """The value of an expression, or what a script returns."""
        self.driver.switch_to.window(self.window)
        script = script if "return" in script or ";" in script else f"return {script}"
        return self.driver.execute_script(HELP + script, *arguments)

    def wait(self, script, *arguments):
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := self.run(script, *arguments):
                return found
            time.sleep(0.02)
        raise AssertionError(f"never true: {script}; the page has {self.text()[:500]}")

    def texts(self, selector):
        return self.run("every(arguments[0]).map(e => e.innerText.trim())", selector)

    def text(self, selector="body"):
        return self.run("document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click();", selector)

    def matrix(self):
        """The cells of the table of wins."""
        return self.run("every('#matrix tr').map(r => [...r.cells].map(c => c.innerText))")

    def is_wide(self):
        """Whether the page is wider than its window."""
        return self.run("document.documentElement.scrollWidth") > self.width

    def complaints(self):
        """Console messages, dialogs, and requests for anything from elsewhere."""
        found = [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Page.javascriptDialogOpening":
                found.append("a dialog")
            if message["method"] == "Network.requestWillBeSent":
                asked = message["params"]["request"]["url"]
                if not asked.startswith(("data:", "about:", "http://127.0.0.1:")) and asked not in self.opened:
                    found.append(asked)
        return found
