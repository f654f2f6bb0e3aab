"""The table of commands: their groups, modules, first lines of help, and examples.

This module imports nothing, because `agenttool --help` loads it (ADR 0007).
"""

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Use tools": {
        "call": ("call:call", "Call one tool with every check, and ask for approval if needed."),
        "tools": ("tools:tools", "List the tools of a module, and the facts assumed about them."),
        "search": ("tools:search", "Find tools by what they do, or by exact name, as a model would."),
        "approvals": ("approvals:approvals", "List the calls that wait for approval, and answer them."),
        "cancel": ("cancel:cancel", "Cancel an open call, whichever process runs it."),
    },
    "Run": {
        "serve": ("serve:serve", "Serve the HTTP API, MCP and the console on one port."),
        "mcp": ("mcp:mcp", "Serve the tools to one MCP client over stdio."),
        "export-config": (
            "export_config:export_config",
            "Print the settings with which an MCP client uses this gateway.",
        ),
        "rap": ("rap:app", "Serve a provider's tools over the Reactive Agent Protocol."),
        "demo": ("demo:demo", "Run governed calls, an approval and a crash, and check them."),
    },
    "Look": {
        "status": (
            "status:status",
            "Show open calls, approvals, sources, processes and the store.",
        ),
        "log": ("log:log", "List calls, one line each, by time, tool, status, user or text."),
        "show": ("show:show", "Show one call: its inputs, who decided, and its result."),
        "views": ("views:views", "Show the views that servers publish for each thread."),
        "export": ("journal_files:export", "Write every record of the journal as JSON Lines."),
    },
    "Govern": {
        "sources": ("sources:app", "List the servers in the settings, and review changed tools."),
        "import": ("import_settings:import_settings", "Add the MCP servers of Claude, Cursor, VS Code or a file."),
        "keys": ("keys:app", "Add, list and revoke keys; each command takes --json."),
        "credentials": (
            "credentials:credentials",
            "List the credentials, and which of them are missing.",
        ),
        "init": ("settings:init", "Write a first settings file, with comments."),
        "settings": ("settings:settings", "Show which settings files apply, and where settings come from."),
        "trust": ("trust:trust", "Trust the settings and the store of a project."),
        "policy": ("policy:app", "Show, revoke and try rules; each command takes --json."),
        "verify": ("verify:verify", "Check that the journal is unchanged and consistent."),
        "backup": ("journal_files:backup", "Copy the journal while other processes write to it."),
        "retain": ("journal_files:retain", "Delete payloads and facts that are older than a number of days."),
    },
    "Standards": {
        "validate": (
            "validate:validate",
            "Check the schemas and the consistency of records.",
        ),
        "conformance": (
            "conformance:conformance",
            "Show which requirements of the standards a passing test proves.",
        ),
    },
}
"""Group → name → ("module:function", or "module:app" for commands with subcommands; first line of the help).

A test compares the first lines with those of the functions.
"""

COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "agenttool call add a=19 b=23 --from mytools",
        "agenttool approvals",
        "agenttool log --since 2h --status failed",
    ),
    "call": (
        "agenttool call add a=19 b=23 --from mytools",
        'agenttool call send --args \'{"to": "ada", "amount": 5}\' --store calls.db',
        "agenttool call chart --from mytools --out chart.png",
        "agenttool call math.add a=19 b=23 --url http://127.0.0.1:8642",
    ),
    "tools": ("agenttool tools --from mytools", "agenttool tools --from mytools --why math.add"),
    "search": ("agenttool search add two numbers --from mytools", "agenttool search select:math.add --from mytools"),
    "approvals": (
        "agenttool approvals",
        "agenttool approvals --tool 'bank.*' --containing ada --json",
        "agenttool approvals answer apr_01a1e669b742 allow --shown 7d865ecd0f1b2a34 --by ada",
        "agenttool approvals answer apr_01a1e669b742 allow --shown 7d865ecd0f1b2a34 --remember 1 --save project",
    ),
    "cancel": ("agenttool cancel 1ff29000",),
    "serve": ("agenttool serve --port 8000 --store calls.db",),
    "mcp": ("agenttool mcp --from mytools --store calls.db",),
    "export-config": (
        "agenttool export-config claude-desktop",
        "agenttool export-config vscode --url http://127.0.0.1:8000/mcp",
    ),
    "rap serve": ("agenttool rap serve garden:provider --port 8123",),
    "rap check": ("agenttool rap check http://127.0.0.1:8123",),
    "rap describe": ("agenttool rap describe garden:provider",),
    "demo": ("agenttool demo",),
    "status": ("agenttool status", "agenttool status --json"),
    "log": (
        "agenttool log --since 2h --status failed",
        "agenttool log --tool 'files.*' --by ada --containing invoice",
        "agenttool log --follow",
        "agenttool log --events --call 1ff29000",
    ),
    "show": ("agenttool show", "agenttool show 1ff29000"),
    "views": ("agenttool views --follow",),
    "export": ("agenttool export --out records.jsonl",),
    "init": ("agenttool init",),
    "settings": ("agenttool settings",),
    "trust": ("agenttool trust", "agenttool trust --list", "agenttool trust --revoke ."),
    "policy rules": ("agenttool policy rules",),
    "policy forget": ("agenttool policy forget apr_01a1e669b742-1",),
    "policy try": (
        "agenttool policy try bank.send to=ada amount=5 --from mytools",
        "agenttool policy try bank.send to=ada --actor agent:ci --role caller --url http://127.0.0.1:8642",
    ),
    "policy replay": ("agenttool policy replay stricter.toml --since 30d --from mytools",),
    "sources": ("agenttool sources",),
    "sources login": ("agenttool sources login github",),
    "sources request": ("agenttool sources request pets getPet id=7",),
    "sources add": (
        "agenttool sources add files -- npx -y @modelcontextprotocol/server-filesystem /srv/docs",
        "agenttool sources add docs https://mcp.example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'",
        "agenttool sources add openapi https://pets.example/openapi.json --security bearerAuth=PETS_TOKEN",
    ),
    "sources log": ("agenttool sources log github",),
    "sources review": (
        "agenttool sources review github",
        "agenttool sources review github create_issue --accept 9f2b61c04ad87e35",
    ),
    "import": ("agenttool import", "agenttool import cursor --dry-run", "agenttool import servers.json --yes"),
    "credentials": ("agenttool credentials", "agenttool credentials github --check --actor user:ada"),
    "keys add": ("agenttool keys add agent:ci", "agenttool keys add user:ada --role approver --expires 30d"),
    "keys list": ("agenttool keys list",),
    "keys revoke": ("agenttool keys revoke 5f1c0a9d2b7e4411",),
    "keys link": ("agenttool keys link",),
    "verify": ("agenttool verify --write-head head.json", "agenttool verify --pin head.json"),
    "backup": ("agenttool backup /backups/calls.db",),
    "retain": ("agenttool retain --payloads 30 --journal 365",),
    "validate": ("agenttool validate records.jsonl", "agenttool export | agenttool validate -"),
    "conformance": ("agenttool conformance --missing --area PERM",),
}
"""Examples by command; the help of each command ends with them, and a test parses them."""
