"""The first hour of a new user: a fresh environment with the built wheel, and only what README and the site say.

`python tests/examples/first_hour.py` prints each step with its time and what the screen said.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tools")]

from console_pages import Reader  # noqa: E402 -- the folders above

from agenttool.testing import ModelCall, reply, serve_model, stream  # noqa: E402
from site_pages import on_page_markdown  # noqa: E402

STOCK = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
LOOPS = {
    "openai": [reply("openai", STOCK), reply("openai", text="There is enough.")],
    "anthropic": [reply("anthropic", STOCK), reply("anthropic", text="There is enough.")],
    "openai stream": [stream("openai", STOCK, text="Let me look. "), stream("openai", text="There is enough.")],
}


def show(step, seconds, screen):
    """Print one step."""
    lines = [line.rstrip() for line in screen.strip().splitlines()]
    print(f"[{seconds:6.1f} s] $ {step}", *(f"           {line}" for line in lines), sep="\n", flush=True)


def run(command, folder, environment=None):
    """Run a command that must succeed; show it and return what it printed."""
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )  # fmt: skip
    show(command, time.monotonic() - began, done.stdout + (done.stderr if done.returncode else ""))
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_site(name):
    """Return a page as the site shows it."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri=name.removeprefix("docs/")))
    return on_page_markdown((ROOT / name).read_text(encoding="utf-8"), page=page)


def follow(title, name, home, environment):
    """Do what a page says, in a folder of its own."""
    print(f"\n== {title} ({name})", flush=True)
    folder = home / name.replace("/", "-").removesuffix(".md")
    folder.mkdir()
    reader = Reader(folder, environment, show)
    try:
        reader.follow(on_site(name))
    finally:
        reader.close()


def install(home):
    """Build the wheel and install it into a fresh environment; return the variables of that environment."""
    print("== Install (README.md)", flush=True)
    run(f"{sys.executable} -m pip -q wheel --no-deps --wheel-dir {home} {ROOT}", home)
    run("python3 -m venv .venv", home)
    (wheel,) = home.glob("agenttool-*.whl")
    own = {"PATH": f"{home / '.venv/bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    environment = {**own, **{name: value for name, value in os.environ.items() if name.startswith("PIP_")}}
    run(f"pip -q --disable-pip-version-check install '{wheel.name}[all]' openai anthropic pytest", home, environment)
    run("python -c 'import agenttool; print(agenttool.__version__, agenttool.__file__)'", home, environment)
    schemas = run("ls .venv/lib/python*/site-packages/agenttool/schemas", home, environment)
    assert set(schemas.split()) == {file.name for file in (ROOT / "schemas").iterdir()}
    return environment


def loops(home, environment):
    """Run three loops of the page about models against scripted models."""
    name = "docs/how-to/providers.md"
    print(f"\n== Three agent loops, one of them streaming ({name})", flush=True)
    page = (ROOT / name).read_text(encoding="utf-8")
    programs = dict(re.findall(r"<!-- example:([^>]+) -->\n```python\n(.*?)```", page, re.DOTALL))
    (home / "depot.py").write_text(programs["file depot.py"])
    for loop, script in LOOPS.items():
        file = f"{loop.replace(' ', '_')}_agent.py"
        (home / file).write_text(programs[loop])
        with serve_model(script) as model:
            urls = {"OPENAI_BASE_URL": model.url, "ANTHROPIC_BASE_URL": model.url}
            keys = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
            printed = run(f"python {file}", home, {**environment, **urls, **keys})
        assert "There is enough." in printed
        assert "7 soap in the north" in str(model.requests[1])


def main():
    """Live through the hour."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        home = Path(folder)
        environment = install(home)
        follow("Ten lines", "README.md", home, environment)
        follow("The tutorial: tools, a rule, three approvals, a loop, an audit question", "docs/tutorial.md", home, environment)  # fmt: skip
        follow("Five tools with different signatures", "docs/how-to/write-a-tool.md", home, environment)
        loops(home, environment)
        follow("Tests of tools", "docs/how-to/test-your-tools.md", home, environment)
        follow("An audit", "docs/how-to/audit.md", home, environment)
    print(f"\nall of it took {(time.monotonic() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
