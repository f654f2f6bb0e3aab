"""Take the pictures of the console in `docs/assets/console`, each page in light and dark colors and as wide as a phone.

Run it after a change of the console: `.venv/bin/python tests/console/take_screenshots.py`.
It serves the demo in an empty folder and needs Chromium.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import Visitor, open_browser  # noqa: E402 -- its folder is added above

FOLDER = ROOT / "docs" / "assets" / "console"
PAGES = {
    "home": "/",
    "approvals": "/approvals",
    "calls": "/calls",
    "call": "",
    "tools": "/tools",
    "tool": "/tools/tool_demo.send_invoice",
}
PAGES |= {"sources": "/sources", "policy": "/policy?tool=demo.send_invoice", "access": "/access"}
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}
SETTLED_MS = 1500


def main():
    """Serve the demo, and take a picture of each page in each look."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "agenttool", "serve", "--json", "--port", "0"]
        with subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                started = json.loads(server.stdout.readline())
                with open_browser() as browser:
                    take_pictures(browser, started["url"], started["login_url"])
            finally:
                server.terminate()


def take_pictures(browser, url, link):
    """Log in once, and take the pictures with that session."""
    first = Visitor(browser)
    first.go(link).get_by_text("demo.flaky").first.wait_for()
    failed = first.page.get_by_role("link", name="demo.flaky").first.get_attribute("href")
    session = first.context.storage_state()
    for look, options in LOOKS.items():
        visitor = Visitor(browser, storage_state=session, **options)
        for name, path in PAGES.items():
            visitor.go(url + (path or failed)).wait_for_timeout(SETTLED_MS)
            visitor.page.screenshot(path=FOLDER / f"{name}-{look}.png")
            print(f"{name}-{look}.png")
        visitor.context.close()


if __name__ == "__main__":
    main()
