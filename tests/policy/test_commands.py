import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.commands import command_pattern
from agenttool.policy.programs import list_argv, list_commands
from agenttool.policy.shell import parse_commands


def only(text):
    [subcommand] = parse_commands(text).subcommands
    return subcommand


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("git status", "git status", True),
        ("git status", "git  'status'", True),
        ("git status", "git status -v", False),
        ("git status", "git", False),
        ("git status", "/usr/bin/git status", False),
        ("git status", "./git status", False),
        ("git status", "GIT status", False),
        ("git log *", "git log", True),
        ("git log *", "git log -3 --stat", True),
        ("git log *", "git log $x", True),
        ("git log *", "git $x", False),
        ("git log -3", "git log $x", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run build", False),
        ("*", "anything at all", True),
        ("*", "$x", False),
        ("git status", "A=1 git status", False),
        ("A=1 git status", "A=1 git status", True),
        ("A=1 git status", "A=2 git status", False),
        ("A=* git status", "A=2 git status", True),
        ("A=* git status", "A=$x git status", False),
        ("git status", "LANG=C git status", True),
        ("git status", "LD_PRELOAD=x git status", False),
        ("wc -l", "wc -l < f", False),
        ("wc *", "wc -l < f", True),
        ("PATH=/bin", "PATH=/bin", True),
        ("pip install -r a.txt", "pip install --requirement a.txt", True),
        ("rm -rf *", "rm -fr x", True),
        ("rm -r", "rm -rf", False),
        ("git status", "PATH=/evil", False),
        ("*", "PATH=/evil", False),
    ],
)
def test_an_allow_covers_exactly_what_it_says(pattern, command, covered):
    assert command_pattern(pattern).covers(only(command)) is covered


@pytest.mark.parametrize(
    ("pattern", "command", "hit"),
    [
        ("rm", "rm x", True),
        ("rm -rf", "rm -rf /", True),
        ("rm -rf", "rm -fr /", True),
        ("rm -rf", "rm -r -f /", True),
        ("rm -rf", "rm / -r -v -f", True),
        ("rm -rf", "rm -r /", False),
        ("rm -r *", "rm --recursive --force /etc", True),
        ("rm -f *", "rm --recursive --force /etc", True),
        ("rm -rf", "rm --rec --forc /etc", True),
        ("rm -r", "rm -R /etc", True),
        ("rm --recursive", "rm x -fr", True),
        ("rm --force --recursive", "rm -rf x", True),
        ("chmod -R", "chmod --recursive 777 x", True),
        ("git branch -D", "git branch --delete --force x", True),
        ("git branch -D", "git branch -d x", False),
        ("git commit --no-verify", "git commit -nm x", True),
        ("curl --data *", "curl -sd x y", True),
        ("tar --directory *", "tar xf a -C /", True),
        ("unknown -ab", "unknown x -ba", True),
        ("unknown -ab", "unknown -a", False),
        ("go -exec", "go test -exec x", True),
        ("go -exec", "go test -c -e -x", False),
        ("git push", "git stash push", False),
        ("kill -9", "kill -19", False),
        ("git push --force", "git push -f", True),
        ("rm -rf", "rm $flags /", True),
        ("rm -rf *", "rm -rf /", True),
        ("git push", "git push origin main", True),
        ("git push", "git -C /x push", True),
        ("git push", "git pull", False),
        ("git push --force", "git push origin --force", True),
        ("git push --force", "git push origin --forc", True),
        ("git push --force", "git push --force=yes", True),
        ("git push --force", "git push --force-with-lease", False),
        ("git push --force", "git push", False),
        ("git push --force", "git push $x", True),
        ("git push --force", "git $x", True),
        ("curl *", "curl", True),
        ("/usr/bin/curl", "curl x", True),
        ("curl", "/opt/curl x", True),
        ("LD_PRELOAD=*", "LD_PRELOAD=x ls", True),
        ("LD_PRELOAD=*", "LD_PRELOAD=$x ls", True),
        ("LD_PRELOAD=*", "LANG=$x ls", False),
        ("LD_PRELOAD=*", "ls", False),
        ("*", "anything", True),
        ("rm", "/bin/r? x", True),
        ("rm", "*.py x", False),
        ("git push", "git p*", True),
        ("git push", "git l*", False),
    ],
)
def test_a_deny_hits_whatever_may_be_meant(pattern, command, hit):
    assert command_pattern(pattern).hits(only(command)) is hit


words = st.lists(st.sampled_from(["git", "log", "-v", "-x", "a", "--all", "$x", "*.py"]), min_size=1, max_size=4)


@given(words, words)
def test_what_an_allow_of_a_pattern_covers_a_deny_of_it_hits(pattern, command):
    pattern = command_pattern(" ".join(pattern).replace("$x", "x"))
    subcommand = only(" ".join(command))
    if pattern.covers(subcommand):
        assert pattern.hits(subcommand)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "at least a name"),
        ("git 'status", "quotes in pairs"),
        ("git status && ls", "one pattern per command"),
        ("ls > out", "one pattern per command"),
        ("echo $(ls)", "one pattern per command"),
        ("@reads", "use one of @read, "),
    ],
)
def test_what_is_no_pattern_is_refused_with_advice(text, advice):
    with pytest.raises(ValueError, match=advice):
        command_pattern(text)


def surely_hit(pattern, line):
    return any(command_pattern(pattern).surely_hits(each) for each in line.subcommands)


def is_ruled_out(pattern, line):
    return line.doubt is None and not any(
        each.opaque is not None or command_pattern(pattern).hits(each) for each in line.subcommands
    )


@pytest.mark.parametrize(
    "text",
    [
        "env rm x",
        "env -i A=1 rm x",
        "env -S 'rm x'",
        "sudo rm x",
        "env -- rm x",
        "/opt/evil/env rm x",
        "./bash -c 'rm x'",
        "env $x rm x",
        "timeout $x rm x",
        "sudo -u root -- rm x",
        "sudo -u root env A=1 nice -n 5 rm x",
        "doas rm x",
        "nice rm x",
        "nohup rm x &",
        "timeout 5 rm x",
        "timeout -k 1 -s KILL 5 rm x",
        "time rm x",
        "command rm x",
        "builtin rm x",
        "exec rm x",
        "stdbuf -o0 rm x",
        "ls | xargs rm",
        "ls | xargs -0 -n1 rm",
        "ls | xargs -I{} rm {}",
        "bash -c 'rm x'",
        'sh -c "rm x"',
        "/bin/bash -lc 'cd /; rm x'",
        "bash -c \"bash -c 'rm x'\"",
        "bash -euxc 'rm x'",
        "zsh -c 'rm x'",
        "sudo bash -c 'rm x'",
        'sudo sh -c "env rm x"',
        "find . -name '*.tmp' -exec rm {} ;",
        "find . -execdir rm {} +",
        "ssh host rm x",
        "ssh host 'cd /; rm x'",
        "watch -n1 rm x",
        "busybox rm x",
        "strace -f rm x",
        "su -c 'rm x'",
        "parallel rm ::: a b",
        "/bin/rm x",
        "../../bin/rm x",
        "RM x",
        "eval 'rm x'",
        "eval $x",
        "trap 'rm x' EXIT",
        "$X x",
        '"$X" x',
        "$(echo rm) x",
        "/bin/r? x",
        "echo rm x | sh",
        "bash -s < script",
        'bash -c "$x"',
        'sudo bash -c "$x"',
        "sudo eval x",
        "sudo " + "a " * 300 + "rm x",
        "env " * 20 + "rm x",
        "! { rm x; }",
        "time { rm x; }",
        "coproc rm x",
        "time coproc rm x",
        "time A=1 rm x",
        "env --split-string='rm x'",
        "env -S'rm x'",
        "taskset 1 rm x",
        "screen -dm rm x",
        "tmux new-session 'rm x'",
        "hash -p /bin/rm ls; ls x",
        "mapfile -C 'rm x' -c 1 < file",
        "alias ls=rm; ls x",
        "source <(echo rm x)",
        ". /dev/stdin <<< 'rm x'",
        "bash /proc/self/fd/0 <<< 'rm x'",
        "BASH_ENV=<(echo rm x) bash -c :",
        "LD_PRELOAD=./rm.so ls",
        "env -Srm x",
        "env -iSrm x",
        "env -iS'rm x'",
        "env --split-string=rm x",
        "script -qc'rm x' /dev/null",
        "flock /tmp -c'rm x'",
        "echo rm | xargs -I% env % x",
        "echo rm | xargs -i {} x",
        "echo x | xargs -I % rm %",
        "choom -n 0 -- rm x",
        "x86_64 rm x",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
        "compgen -W '$(rm x)'",
        "PS4='$(rm x)' bash -xc :",
        "GIT_SSH_COMMAND='rm x' git fetch",
        "uv run rm x",
        "bundle exec rm x",
        "kubectl exec pod -- rm x",
        "docker exec -it box rm x",
        "ENV rm x",
        "printf -v z %s 'a[' '$(rm x)' ']'; ((z))",
        "read z < file; if ((z > 1)); then ls; fi",
        "read z < file; [[ $z -eq 1 ]]",
        "read z < file; let z",
        "read z < file; for ((i = z; i < 3; i++)); do ls; done",
        "read z < file; echo ${y:z}",
        "printf -v 'a[$(rm x)]' y",
        "read a[\\$\\(rm\\)]",
        'let "a[\\$(rm x)]=1"',
        "unset 'a[''$(rm x)'']'",
        "z='a[$(rm x)]'; y=([z]=1)",
        "z='a[$(rm x)]'; y+=(1 [1+z]=1)",
        "z='a[$(rm x)]'; read y[z] < file",
        "z='a[$(rm x)]'; read 'y[z]' < file",
        "z='a[$(rm x)]'; [ ! -v y[z] ]",
        "z='-v a[$(rm<x)]'; [ $z ]",
        "read z < file; [ y = $z ]",
        "y=(-v 'a[$(rm x)]'); test \"${y[@]}\"",
        "exec 3<>f",
        "set -k; ls",
        "shopt -s dotglob; ls",
    ],
)
def test_a_command_that_another_may_run_is_never_ruled_out(text):
    assert not is_ruled_out("rm", list_commands(text))


@pytest.mark.parametrize(
    "text",
    [
        "env -i A=1 rm x",
        "sudo rm x",
        "sudo -u root env A=1 nice -n 5 rm x",
        "timeout -k 1 -s KILL 5 rm x",
        "ls | xargs -0 -n1 rm",
        "ls | xargs -I{} rm {}",
        "bash -c \"bash -c 'rm x'\"",
        "/bin/bash -lc 'cd /; rm x'",
        'sudo sh -c "env rm x"',
        "find . -name '*.tmp' -exec rm {} ;",
        "find . -execdir rm {} +",
        "../../bin/rm x",
        "RM x",
        "git status; rm $x",
    ],
)
def test_a_command_behind_an_understood_wrapper_is_found_for_certain(text):
    assert surely_hit("rm", list_commands(text))


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm x' | zsh",
        "zsh <<< 'rm x'",
        "ssh -oProxyCommand='rm x' host",
        "GIT_PAGER='rm x' git log",
        "git -c alias.z='!rm x' z",
        "script -qc'rm x' /dev/null",
        "docker exec -it box /bin/rm x",
        "make; echo 'r''m x'",
    ],
)
def test_a_denied_program_is_found_in_the_text_of_a_line_that_may_run_it(text):
    line = list_commands(text)
    assert any(each.opaque is not None for each in line.subcommands)
    assert command_pattern("rm *").is_mentioned_in(line)
    assert not command_pattern("shred *").is_mentioned_in(line)


@pytest.mark.parametrize(
    "text",
    [
        "find . -perm 755",
        "git -C /x log --oneline | head -3",
        "for f in *.py; do wc $f; done",
        "cat <<'EOF' > f\nrm x\nEOF\n",
        "sort -u a | uniq -c",
        "sed -n '/a/,$p; s/b/c/g' f",
        "awk -F, '/a|b/ && $3 > 1 { print $1 }' f",
        "echo $((1 + 2))",
        "if [[ -f x ]]; then ls; fi",
        "i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done",
        "name=x; echo $name",
        "LANG=C ls",
        "env ls",
        "bash -c 'ls'",
        "git rm x",
        "echo rm",
        "ls -rm",
        "xargs -I% cp % there",
    ],
)
def test_a_line_of_plain_commands_rules_others_out(text):
    assert is_ruled_out("rm", list_commands(text))


@pytest.mark.parametrize(
    "text",
    [
        "make",
        "npm test",
        "git fetch --upload-pack=x",
        "git st",
        "sort --compress-prog=x",
        "sed 's/a/rm x/e' f",
        "sed 1w/etc/x f",
        "awk 'BEGIN { system(1) }'",
        "awk '{ print | 1 }'",
        "jq -n env",
        "ls $TOKEN",
        "GIT_PAGER=1",
        "export GIT_PAGER=x",
        "/opt/bin/ls",
        "LS",
    ],
)
def test_a_program_that_is_not_known_to_be_plain_is_opaque(text):
    assert [each.opaque is not None for each in list_commands(text).subcommands] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "find . -name x",
        "bash script.sh",
        ". ./settings.sh",
        "alias.sh",
        "uv pip install rm",
        "docker rm box",
        "ENV=test make",
        "for ((i=0; i<3; i++)); do echo $i; done",
        "if ((2 > 1)); then ls; fi",
        "[[ 1 -eq 1 ]] && ls",
        "[ $x -eq 1 ] && ls",
        "[[ $x == y ]] && ls",
        "echo ${y:1:2} ${y:-z}",
        "/bin/r? x",
    ],
)
def test_a_deny_is_not_certain_of_what_is_not_there(text):
    assert not surely_hit("rm", list_commands(text))


def needed(text):
    return [[word.text for word in each.words] for each in list_commands(text).subcommands if not each.is_wrapper]


def test_an_allow_need_not_name_a_wrapper_that_adds_nothing():
    assert needed("env nice -n 5 timeout 5 git status") == [["git", "status"]]
    assert needed("bash -lc 'git status && git log'") == [["git", "status"], ["git", "log"]]
    assert needed("cat f | xargs git log") == [["cat", "f"], ["git", "log", ""]]
    assert needed("cat f | xargs -I{} git log {}") == [["cat", "f"], ["git", "log", "{}"]]
    assert needed("find src | grep x | xargs -I{} git log {}")[-1] == ["git", "log", "src/**"]


def test_an_allow_must_name_a_launcher_that_adds_power():
    assert needed("sudo git status") == [["sudo", "git", "status"]]
    assert needed("find . -delete") == [["find", ".", "-delete"]]
    assert needed("env -S 'git status'") == [["env", "-S", "git status"]]


def test_a_list_of_words_is_a_command_that_no_shell_reads():
    assert surely_hit("rm", list_argv(["bash", "-lc", "rm x"]))
    assert is_ruled_out("rm", list_argv(["echo", "x; rm x"]))
    assert list_argv(["echo", "$x", "*"]).doubt is None
