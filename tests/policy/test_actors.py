import pytest
from starting import begin

from agenttool import Runtime, tool
from agenttool.errors import ConfigError
from agenttool.ports.identity import AccessRole, IdentityKind, Principal

RULES = """
[roles]
intern = ["agent:intern-*", "user:kim"]
admin = "user:ada"

[teams]
payments = ["user:ada", "agent:billing"]

[[rules]]
name = "admins-pay"
behavior = "allow"
tool = "local.pay"
role = "admin"
must_match = [{ tool = "local.pay", actor = "user:ada", role = "admin" }]
must_not_match = [{ tool = "local.pay", actor = "user:kim", role = "intern" }, { tool = "local.pay" }]

[[rules]]
name = "billing-pays"
behavior = "allow"
tool = "local.pay"
team = "payments"
actor = "agent:*"

[[rules]]
name = "interns-do-not-post"
behavior = "deny"
tool = "local.post"
role = "intern"

[[rules]]
name = "post"
behavior = "allow"
tool = "local.post"
"""


@tool
def pay(amount: int) -> str:
    """Pay. Not for refunds."""
    return "paid"


@tool
def post(text: str) -> str:
    """Post a text. Not for mail."""
    return "posted"


async def outcomes(folder, name, arguments, actors, rules=RULES):
    (folder / "agenttool.toml").write_text(rules)
    async with Runtime.open(tools=[pay, post], config=folder / "agenttool.toml", approve="deny") as rt:
        surface = await rt.surface()
        results = [await rt.call(name, arguments, surface=surface, actor_ref=actor) for actor in actors]
    return ["runs" if each.error is None else each.error.error_class for each in results]


async def test_an_allow_by_role_covers_only_the_actors_of_that_role(tmp_path):
    actors = ["user:ada", "user:kim", "User:Ada", None]
    assert await outcomes(tmp_path, "pay", {"amount": 1}, actors) == ["runs", *["permission_denied"] * 3]


async def test_conditions_on_team_and_actor_must_both_hold(tmp_path):
    actors = ["agent:billing", "agent:other"]
    assert await outcomes(tmp_path, "pay", {"amount": 1}, actors) == ["runs", "permission_denied"]


async def test_a_deny_by_role_also_covers_a_caller_that_names_no_actor(tmp_path):
    actors = ["agent:intern-7", "AGENT:INTERN-7", None, "", " ", "user:ada"]
    wanted = ["permission_denied", "runs", *["permission_denied"] * 3, "runs"]
    assert await outcomes(tmp_path, "post", {"text": "x"}, actors) == wanted


async def test_a_suggested_rule_names_the_actor_that_made_the_call(tmp_path):
    async with Runtime.open(tools=[pay], store=f"sqlite:{tmp_path}/calls.db") as rt:
        invocation = await begin(rt, "pay", {"amount": 1}, surface=await rt.surface(), actor_ref="user:kim")
        (question,) = await rt.approvals.list()
    assert question.invocation_id == invocation.invocation_id
    assert question.suggested_updates[0].rule["actor"] == "user:kim"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            'role = "inter"',
            "rule 'project_settings:x' names the role 'inter', which does not exist; did you mean 'intern'?",
        ),
        (
            'role = "gateway:operater"',
            "names the role 'gateway:operater', which does not exist; did you mean 'gateway:",
        ),
        ('role = "operator"', "did you mean 'gateway:operator'?"),
        ('team = "sales"', "names the team 'sales', which does not exist; use one of payments"),
        ('actor = "user:eve"', "names the actor 'user:eve', which does not exist; "),
    ],
)
async def test_a_rule_about_an_unknown_role_team_or_actor_is_an_error_with_a_suggestion(tmp_path, condition, message):
    rules = RULES + f'[[rules]]\nname = "x"\nbehavior = "deny"\ntool = "local.pay"\n{condition}\n'
    with pytest.raises(ConfigError) as caught:
        await outcomes(tmp_path, "pay", {"amount": 1}, [], rules)
    assert message in str(caught.value)
    assert "agenttool.toml:34: " in str(caught.value)


async def test_a_role_without_a_table_of_roles_is_an_error(tmp_path):
    rules = '[[rules]]\nbehavior = "deny"\ntool = "local.pay"\nrole = "intern"\n'
    with pytest.raises(ConfigError, match=r'add a table \[roles\] with intern = \["ACTOR"\]'):
        await outcomes(tmp_path, "pay", {"amount": 1}, [], rules)


async def test_any_actor_is_valid_where_no_group_lists_actors(tmp_path):
    rules = '[[rules]]\nbehavior = "allow"\ntool = "local.pay"\nactor = "user:*"\n'
    actors = ["user:eve", "agent:eve"]
    assert await outcomes(tmp_path, "pay", {"amount": 1}, actors, rules) == ["runs", "permission_denied"]


async def test_roles_of_settings_and_roles_of_keys_are_never_confused(tmp_path):
    rules = '[roles]\noperator = "user:*"\n[[rules]]\nbehavior = "allow"\ntool = "local.pay"\nrole = "{}"\n'
    key = Principal(subject="agent:ci", kind=IdentityKind.KEY, roles=frozenset({AccessRole.OPERATOR}))
    for role, wanted in (
        ("operator", ["permission_denied", "runs"]),
        ("*", ["permission_denied", "runs"]),
        ("gateway:operator", ["runs", "permission_denied"]),
        ("gateway:*", ["runs", "permission_denied"]),
        ("gateway:caller", ["permission_denied", "permission_denied"]),
    ):
        assert await outcomes(tmp_path, "pay", {"amount": 1}, [key, "user:ada"], rules.format(role)) == wanted
    with pytest.raises(ConfigError, match=r"\[roles\] lists 'gateway:boss', but 'gateway:' begins a role of keys"):
        await outcomes(tmp_path, "pay", {"amount": 1}, [], '[roles]\n"gateway:boss" = "user:*"\n')
