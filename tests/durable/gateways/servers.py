"""Three gateways on one store, as processes that are killed, stopped for a while and restarted."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LEASE_S = 1.0
COUNT = 3
OPTIONS = ["--json", "--port", "0", "--from", "shop", "--store", "calls.db", "--settings", "agenttool.toml"]
ALLOWED = ("pay", "nap", "put", "mark", "twice", "errand", "courier")
RULES = "".join(f'[[rules]]\nbehavior = "allow"\ntool = "shop.{name}"\n\n' for name in ALLOWED)


def prepare(folder):
    """Write the tools, the rules and a store with the key of an approver; return the header of the key."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "shop.py", folder)
    (folder / "agenttool.toml").write_text(RULES)
    roles = [word for role in ("approver", "auditor", "operator") for word in ("--role", role)]
    added = run(folder, "keys", "add", "user:eve", *roles, "--store", "calls.db", "--json")
    return {"authorization": f"Bearer {json.loads(added.stdout)['key']}"}


def run(folder, *words):
    """Run a command in a folder."""
    program = [sys.executable, "-m", "agenttool", *words]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)


def build_slow_sync(folder):
    """Compile the library that slows down syncs; return its path, or none without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = Path(folder) / "slow_sync.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "slow_sync.c", "-ldl"], check=True)
    return str(library)


class Gateway:
    """One gateway, and the processes that serve it one after another."""

    def __init__(self, folder, number, sync_ms):
        self._folder, self._number = folder, number
        self._variables = {**os.environ, "SLOW_SYNC_MS": str(sync_ms)}
        self._process = None
        self.url = None
        """Where it serves; none while it is down."""
        self.exit_codes = []
        """Those of processes that were asked to stop."""

    @property
    def log(self):
        return self._folder / f"gateway{self._number}.log"

    async def start(self):
        program = [sys.executable, str(HERE / "gateway.py"), str(LEASE_S), *OPTIONS]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 -- the program only waits for it
                program, cwd=self._folder, env=self._variables, stdout=subprocess.PIPE, stderr=log, text=True
            )
        line = await asyncio.to_thread(self._process.stdout.readline)
        if not line:
            raise RuntimeError(f"a gateway did not start: {self.log.read_text()}")
        self.url = json.loads(line)["url"]

    async def kill(self):
        """Kill it, as a crash does."""
        self.url = None
        self._process.kill()
        await self._ended()

    async def stop(self):
        """Ask it to stop."""
        self.url = None
        self._process.send_signal(signal.SIGTERM)
        self.exit_codes.append(await self._ended())

    async def suspend(self, seconds):
        """Stop its process for a while; requests to it wait."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGCONT)

    async def _ended(self):
        code = await asyncio.to_thread(self._process.wait)
        self._process.stdout.close()
        return code

    def abandon(self):
        """Kill what still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
