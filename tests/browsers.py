"""Chromium without a screen, for the tests of pages."""

import os
import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def chromium(profile, logs):
    """A driver of Chromium with an empty profile, which keeps the `logs`; a skip where there is no browser."""
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
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield driver
    driver.quit()
