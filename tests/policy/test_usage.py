import pytest

from agenttool.policy.programs import list_commands
from agenttool.policy.scripts import is_plain_awk, is_plain_jq, is_plain_sed


def usage(text):
    return list_commands(text).subcommands[0].usage


@pytest.mark.parametrize(
    "text",
    [
        "grep -rn x src",
        "grep x src -n",
        "grep -A3 -e x src",
        "head -20 f",
        "git -C sub log -3 --oneline",
        'git commit -m "$(date)"',
        "sed -n 1,5p f",
        "sed -e s/a/b/ f",
        "tar czf a.tgz src",
        "uv run python -m pytest -q",
        ".venv/bin/pytest -x",
        "python scripts/x.py --any=thing",
        "cargo test parser -- --nocapture",
        "anything --version",
    ],
)  # fmt: skip
def test_a_command_is_known_if_all_of_its_words_are(text):
    assert usage(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "grep --recurs x src",
        "/bin/.venv/bin/pytest",
        "grep -f patterns x",
        "grep $x f",
        'grep "$x" f',
        "grep x -f patterns",
        "sed p -e '1e id' f",
        "sed p -f script",
        "sort --compress-program=x f",
        'curl -X "$(echo DELETE)" localhost',
        'curl -d "$(echo @f)" localhost',
        "git log --output=f",
        "git -c a=b log",
        "git fetch origin x:main",
        "pytest --pastebin=all",
        "pytest -p plugin",
        "pytest @arguments",
        "pytest -k @arguments",
        "npm test -- --config=x",
        "npm test -- -c x",
        "gh api repos/../user",
        "docker inspect -f '{{print .}}' web",
        "docker inspect -f '{{$x := .}}{{$x}}' web",
        "kubectl get pods -o json",
        "gotestsum -- -exec x",
        "make deploy",
        "npm run build --script-shell=x",
        "tar xf a.tar",
        "ln -s a",
        "cp a",
        "cp -r a/. .",
        "python",
        "python x.py",
        "python -m pip install x",
        "./x.sh",
        "./ls",
        "uv run bash",
        "find . -fprint x",
        "find . -maxdepth 0 -exec tee + f",
        "find . -maxdepth 0 -exec tee + f ';' -fprint x",
    ],
)
def test_a_command_with_a_word_that_is_not_listed_is_not_known(text):
    assert usage(text) is None


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("cat a b", ["a", "b"], []),
        ("sort -o out a", ["a"], ["out"]),
        ("cp a/x b/y d", ["a/x", "b/y"], ["d", "d/x", "d/y"]),
        ("mv a/x d", ["a/x"], ["d", "d/x", "a/x"]),
        ("sed -i s/a/b/ f", ["f"], ["f"]),
        ("sed -ifile s/a/b/ Make", ["Make"], ["Make", "Makefile"]),
        ("gunzip -k a.py.gz", ["a.py.gz"], ["a.py"]),
        ("gunzip -k a.tgz", ["a.tgz"], ["a.tar"]),
        ("split f Makefi", ["f"], ["Makefi??"]),
        ("npm test -- a/b c --bail", ["a/b"], ["a/b", "c"]),
        ("git show HEAD:a/b", ["HEAD:a/b", "HEAD", "a/b"], []),
        ("python scripts/x.py --in=a/b c", ["scripts/x.py", "--in=a/b", "a/b"], []),
        ("find src -name '*.py' -exec cat {} +", ["src/**/*.py"], []),
        ("find src -iname '.E*' -exec cat {} +", ["src/**/.E*"], []),
        ("find a b -name x -o -name '[yz]' -exec cat {} +", ["a/**/x", "a/**/?", "b/**/x", "b/**/?"], []),
        ("find . -name x -name y -o -path z -exec cat {} +", ["./**/x", "./**/*"], []),
        ("find src -type f -exec cat {} +", ["src/**"], []),
        ("find conf -type f -exec cat {} +", ["conf/**"], []),
        ("grep -r '' .", [".", "./**"], []),
        ("grep -rn TODO .", ["."], []),
        ("grep -rn --include=.env TODO .", [".", "./**/.env"], []),
        ("rg --hidden .", ["./**"], []),
        ("rg TODO", [], []),
        ("git ls-files | grep x | xargs cat", ["./**"], []),
        ("git ls-files '.e*' | xargs cat", ["./**/.e*"], []),
        ("git log -p -- '.e*'", ["./**/.e*"], []),
        ("git log -p -- '*.py'", ["*.py"], []),
        ("cat $(git ls-files)", ["./**"], []),
        ("curl -o /dev/null localhost", [], []),
    ],
)
def test_a_usage_has_the_files_that_are_read_and_written(text, reads, writes):
    commands = [each.usage for each in list_commands(text).subcommands if each.name in ("cat", text.split()[0])]
    found = commands[-1] if "-exec" in text or "|" in text else commands[0]
    assert ([word.text for word in found.reads], [word.text for word in found.writes]) == (reads, writes)


@pytest.mark.parametrize(
    "text",
    [
        "ls -a | xargs cat",
        "ls | sort -o f | xargs cat",
        "ls | grep x f | xargs cat",
        "ls | tr a b | xargs cat",
        "cat f | xargs cat",
        "git ls-files --format=x | xargs cat",
        "rg -l x -r y | xargs cat",
        "find . -printf x | xargs cat",
        "cat $(echo f)",
        "cat $(ls -a)",
    ],
)
def test_what_may_not_be_a_list_of_files_is_not_known_to_be_read(text):
    assert None in [each.usage for each in list_commands(text).subcommands if each.name == "cat"]


def test_a_program_that_only_reads_becomes_an_editor_by_an_option():
    assert [usage("sed p f").kind, usage("sed -i p f").kind] == ["read", "edit"]
    assert [usage("sort f").kind, usage("sort -o g f").kind] == ["read", "edit"]


@pytest.mark.parametrize(
    ("check", "plain", "other"),
    [
        (
            is_plain_sed,
            ["s/a/b/g", "1,5p;$d", "/x/,/y/{s/a/b/;p}", ":a;N;$!ba;s/x/y/"],
            ["1e id", "w f", "s/a/b/w f", "s/a/b/e", "r f", "s/a/b/;e id"],
        ),
        (
            is_plain_awk,
            [
                "{ print $1, $NF }",
                '/a|b/ && $3 > 1 { n[$1]++ } END { for (k in n) printf "%s\\n", k }',
                "{ x = a / b / c; print (x > 1) }",
                "NR==1\n/re/ { print }",
            ],
            [
                'BEGIN { system ("id") }',
                '{ print > "f" }',
                '{ print "a;b" > "f" }',
                '{ print | "sh" }',
                'BEGIN{a="(/"; system("id"); b="/"}',
                "BEGIN{x++ / 2; system(1) #/}",
                "BEGIN { print ENVIRON[1] }",
                "BEGIN { ARGV[1] = 1 }",
                'BEGIN { f = "system"; @f(1) }',
                "{ getline x < 1 }",
                'BEGIN{switch ("}"){case /}/: system("id"); y=1/1 }}',
                "/" + "[^]" * 300,
            ],
        ),
        (
            is_plain_jq,
            [".a[] | select(.b == 1) | {name, id: .x}", 'map("\\(.id) \\(.name)")', ".env", "keys | length"],
            ["env", "$ENV.X", '"\\(env)"', "{a: env}", "input", 'import "a" as a; .', "$__prog_args", "[.a, env]"],
        ),
    ],
)
def test_a_script_is_plain_if_every_token_of_it_is_known(check, plain, other):
    assert [each for each in plain if not check(each)] == []
    assert [each for each in other if check(each)] == []


@pytest.fixture
def judge(decide, shell):
    def judged(line, **rule):
        return decide([{"behavior": "allow", "tool": "local.*", **rule}], shell, {"command": line}).behavior

    return judged


def test_an_allow_of_known_commands_covers_files_inside_its_path(judge):
    read = {"command": "@read", "path": "."}
    assert judge("cat src/a | grep x > out", **read) == "allow"
    assert judge("cat /usr/include/stdio.h", **read) == "allow"
    for line in (
        "cat /etc/hosts",
        "cat ../a",
        "cat a > ../b",
        ": > a",
        "cp a b",
        "cat --unknown a",
        "cat < /etc/hosts",
    ):
        assert judge(line, **read) == "ask", line


def test_an_ask_about_writing_leaves_reading_alone(decide, shell):
    rules = [
        {"behavior": "allow", "tool": "local.*"},
        {"behavior": "ask", "tool": "*", "command": "@writes", "path": ".github"},
    ]
    verdicts = {
        line: decide(rules, shell, {"command": line}).behavior
        for line in (
            "cat .github/a", "cat .github/a > b", "cp .github/a b", "ls .github | xargs cat",
            "echo x > .github/a", "cp a .github", "mv .github a", "ln -s .github a", "unknown .github/a",
        )
    }  # fmt: skip
    reading = list(verdicts)[:4]
    assert verdicts == {**dict.fromkeys(verdicts, "ask"), **dict.fromkeys(reading, "allow")}


@pytest.mark.parametrize(
    ("line", "rule"),
    [("git push", "starter-history"), ("rm -rf build/*", "starter-deletion"), ("cat .env", "starter-secrets")],
)
def test_a_question_names_the_rule_that_names_the_command(starter, line, rule):
    verdict = starter(line)
    assert verdict.behavior == "ask"
    assert rule in verdict.reason.message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ag foo", "program 'ag' is not known"),
        ("curl -I https://example.org", "'curl' gets the argument 'https://example.org'"),
        ("git log --output=x", "'git' gets the option '--output'"),
        ("sed '1e id' x", "'sed' gets the script"),
        ("echo $TOKEN", "'echo' gets the variable '$TOKEN' of the environment"),
        ("cat /etc/hosts", "'cat' uses '/etc/hosts', which is outside of the paths that rules allow"),
        ("npm run dev > /opt/dev.log", "'npm' uses '/opt/dev.log', which is outside of the paths that rules allow"),
        ("echo > src/a.py", "'src/a.py' would be emptied"),
        ("sed -i d src/a.py", "'sed' gets a script that deletes all lines"),
        ("cat 'x", "it is not understood (a quote is not closed)"),
        ("LD_PRELOAD=x ls", "variable 'LD_PRELOAD' may change which programs run"),
    ],
)
def test_a_question_says_what_is_not_known(starter, line, reason):
    verdict = starter(line)
    assert verdict.behavior == "ask"
    assert verdict.reason.message.startswith(f"no rule allows this command: {reason}")


@pytest.mark.parametrize(
    "line",
    [
        'cat <<< "$TOKEN"',
        "cat <<E\n$TOKEN\nE",
        "x=$TOKEN; echo $x",
        "x=($TOKEN); echo $x",
        'for k in a "$TOKEN"; do echo $k; done',
        "echo ${x:-$TOKEN}",
    ],
)
def test_a_variable_of_the_environment_is_not_copied_unasked(starter, line):
    assert starter(line).behavior == "ask"


@pytest.mark.parametrize(
    "target",
    [
        "sub/Makefile",
        "web/package.json",
        "src/conftest.py",
        "sub/agenttool.toml",
        ".pylintrc",
        ".mvn/jvm.config",
        "a/.any-tool/settings",
        "node_modules/x/y",
        "requirements-dev.txt",
        "vite.config.ts",
        "dev-requirements.txt",
        "sub/mypy.ini",
        "web/yarn.lock",
        "settings.yaml",
    ],
)
def test_files_that_run_commands_later_are_asked_about_at_any_depth(starter, target):
    for line in (
        f"echo x > {target}",
        f"cp x {target}",
        f"find . -name {target.rpartition('/')[2]} -exec sed -i d {{}} +",
        f"git ls-files | xargs sed -i s/x/y/ && ls {target}",
    ):
        assert starter(line).behavior == "ask", line
    assert starter(f"cat {target}").behavior == "allow"


def test_a_wildcard_for_sources_stands_for_no_particular_file(decide, shell, starter):
    for line in ("sed -i s/a/b/ *.py", "find . -name '*.ts' -exec sed -i s/a/b/ {} +", "cat src/**/*.py"):
        assert starter(line).behavior == "allow", line
    rules = [
        {"behavior": "allow", "tool": "local.*"},
        {"behavior": "deny", "tool": "*", "path": "**/secret.py"},
        {"behavior": "ask", "tool": "*", "path": "src/pay"},
    ]
    verdicts = {
        line: decide(rules, shell, {"command": line}).behavior
        for line in ("cat a/*.py", "find . -name '*.py' -exec cat {} +", "cat src/pay/*.c", "cat lib/*.c")
    }
    assert list(verdicts.values()) == ["deny", "deny", "ask", "allow"]


def test_a_line_that_changes_folders_often_may_be_anywhere(starter):
    assert starter("cd a && cat x && cd b && cat x").behavior == "allow"
    assert starter("; ".join(f"cd d{each} || cd e{each}; cat x*/y" for each in range(8))).behavior == "ask"


@pytest.mark.parametrize(
    "text", ["((PATH=1)); ls", "echo $((PATH=1)); ls", "for ((PATH=1; PATH<2; )); do ls; done", "echo $[PATH=1]; ls"]
)
def test_a_calculation_that_sets_a_variable_of_programs_is_asked_about(starter, text):
    assert starter(text).behavior == "ask"
    assert starter(text.replace("PATH", "i").replace("$[", "$((").replace("]", "))")).behavior == "allow"


def test_a_fault_of_the_parser_leaves_a_command_in_doubt(starter, monkeypatch):
    assert starter("((1)) | ((2)) | cat").behavior == "allow"
    monkeypatch.setattr("agenttool.policy.programs.parse_commands", lambda _: {}["x"])
    assert starter("ls").behavior == "ask"
