"""Drives Chromium by Playwright: a click in each round, and the page must have counted it."""

from pathlib import Path

from playwright.sync_api import sync_playwright

PAGE = "<button onclick='this.textContent = +this.textContent + 1'>0</button>"

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.new_page()
    page.set_content(PAGE)
    rounds = faults = 0
    while True:
        page.click("button")
        rounds += 1
        faults += page.inner_text("button") != str(rounds)
        Path("new").write_text(f"{rounds} {faults} of clicks that the page counts\n")
        Path("new").rename("state")
