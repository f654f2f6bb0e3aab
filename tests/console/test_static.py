"""The console in a browser: approvals from the call to its result, two approvers, reloads, tabs, and hostile output."""

import threading
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import Visitor, axe_script

from agenttool.policy.rule_settings import rules_in

pytestmark = pytest.mark.slow


def wait_for_result(gateway, invocation_id):
    return gateway.request("GET", f"/v1/calls/{invocation_id}?wait=60")[1]["result"]


def text_of(result):
    return result["content"][0]["text"]


def test_a_call_that_waits_appears_by_itself_and_the_answer_in_the_page_reaches_its_caller(gateway, visitor):
    page = visitor.go(f"{gateway.url}/approvals")
    page.get_by_text("Nothing to decide").wait_for()
    states = []
    arguments = {"customer": "Acme", "amount": 12.5}
    caller = threading.Thread(target=lambda: states.append(gateway.call("demo.send_invoice", arguments, wait=60)))
    caller.start()
    card = page.locator("article")
    card.wait_for()
    assert card.get_by_role("heading").inner_text() == "local wants to run demo.send_invoice on Acme"
    assert [each.inner_text() for each in card.locator(".argument").all()] == [
        "customer\nAcme",
        "amount\n12.5",
        "note\nnull",
    ]
    assert "Allow" not in page.evaluate("document.activeElement.textContent.slice(0, 20)")
    card.get_by_role("button", name="Allow once").click()
    page.get_by_text("Allowed by you.").wait_for()
    caller.join()
    assert text_of(states[0]["result"]) == "Acme got an invoice over 12.5"
    assert (gateway.folder / "sent.txt").read_text() == "Acme 12.5\n"


def test_of_two_approvers_the_first_answer_stands_and_the_second_learns_who_gave_it(gateway, visitor, second_visitor):
    state = gateway.call("demo.send_invoice", {"customer": "Acme", "amount": 1})
    first, second = visitor.page, second_visitor.page
    for page in (first, second):
        page.goto(f"{gateway.url}/approvals/{state['approval_id']}")
        page.locator("article").wait_for()
    # The second page misses the first answer: its requests are held back until both have answered.
    second.route(
        "**/v1/approvals/*", lambda route: route.continue_() if route.request.method == "POST" else route.abort()
    )
    second.route("**/v1/events", lambda route: route.abort())
    first.get_by_role("button", name="Allow once").click()
    first.get_by_text("Allowed by you.").wait_for()
    second.get_by_role("button", name="Allow once").click()
    outcome = second.get_by_text("Already answered")
    outcome.wait_for()
    who = gateway.request("GET", f"/v1/calls/{state['invocation_id']}")[1]["records"]
    decided_by = next(each["decided_by"] for each in who if each.get("decided_by"))
    assert decided_by in outcome.inner_text()
    assert text_of(wait_for_result(gateway, state["invocation_id"])) == "Acme got an invoice over 1"
    assert (gateway.folder / "sent.txt").read_text() == "Acme 1\n"


def test_an_edit_is_checked_by_the_server_shown_as_a_difference_and_survives_a_reload(gateway, visitor):
    state = gateway.call("demo.send_invoice", {"customer": "Acme", "amount": 5000})
    page = visitor.go(f"{gateway.url}/approvals")
    page.get_by_role("button", name="Edit…").click()
    page.get_by_label("amount").fill("")
    page.get_by_text("The arguments are not valid.").wait_for()
    assert page.get_by_role("button", name="Allow with these arguments").is_disabled()
    page.get_by_label("amount").fill("50")
    page.get_by_text("The arguments are valid.").wait_for()
    page.reload()
    page.get_by_text("The arguments are valid.").wait_for()
    assert page.locator(".line.gone").inner_text().replace("\n", "").endswith('"amount": 5000')
    assert page.locator(".line.added").inner_text().replace("\n", "").endswith('"amount": 50')
    page.get_by_role("button", name="Allow with these arguments").click()
    page.get_by_text("by you.").wait_for()
    assert text_of(wait_for_result(gateway, state["invocation_id"])) == "Acme got an invoice over 50"


def shown_conditions(page):
    """Return the conditions of the last rule that the page of rules and its dialog show, read as settings."""
    dialog = page.locator("dialog pre").inner_text()
    assert dialog == f'[[rules]]\nbehavior = "allow"\n{page.locator("table.rules code").last.inner_text()}'
    (rule,) = rules_in(tomllib.loads(dialog)["rules"])
    return rule.conditions


def test_a_denial_carries_a_message_and_a_remembered_rule_is_not_asked_about_again(gateway, visitor):
    denied = gateway.call("demo.send_invoice", {"customer": "Acme", "amount": 1})
    page = visitor.go(f"{gateway.url}/approvals")
    page.get_by_role("button", name="Deny…").click()
    page.get_by_label("Message to the model").fill("ask the customer first")
    page.get_by_role("button", name="Deny", exact=True).click()
    page.get_by_text("Denied by you.").wait_for()
    result = wait_for_result(gateway, denied["invocation_id"])
    assert "ask the customer first" in result["error"]["message"]

    beta = {"customer": "Beta", "amount": 2, "note": "by mail"}
    asked = gateway.call("demo.send_invoice", beta)
    page.locator("article").wait_for()
    page.get_by_role("button", name="Remember…").click()
    rule = page.get_by_label("the exact rule")
    assert 'tool = "demo.send_invoice"' in rule.inner_text()
    assert "expires_at" in rule.inner_text()
    page.get_by_text("past call").wait_for()
    page.get_by_role("button", name="Allow and remember").click()
    page.get_by_text("by you.").first.wait_for()
    assert text_of(wait_for_result(gateway, asked["invocation_id"])) == "Beta got an invoice over 2"
    again = gateway.call("demo.send_invoice", beta, wait=60)
    assert text_of(again["result"]) == "Beta got an invoice over 2"
    page.goto(f"{gateway.url}/policy")
    page.get_by_role("button", name="Forget…").click()
    tests = {f"/{name}": {"equals": value} for name, value in beta.items()}
    assert shown_conditions(page) == {"tool": ["demo.send_invoice"], "actor": ["local"], "argument": tests}
    page.get_by_role("button", name="Forget the rule").click()
    page.get_by_text("The rule is forgotten.").wait_for()
    assert gateway.call("demo.send_invoice", beta)["status"] == "awaiting_approval"


HOSTILE = (
    "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
    "<a href='javascript:window.harmed = 1'>x</a>\u202egpj.exe\u2066\x1b[31m\x07\u200b{{7*7}}${7*7}"
)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_accessibility_problem(gateway, visitor, scheme):
    for tool, arguments in (
        ("echo", {"text": HOSTILE}),
        ("flaky", {}),
        ("send_invoice", {"customer": "Acme", "amount": 1}),
    ):
        state = gateway.call(f"demo.{tool}", arguments)
    visitor.page.emulate_media(color_scheme=scheme)
    script, found = axe_script(), []
    paths = ("", "approvals", "calls", f"calls/{state['invocation_id']}", "tools", "tools/demo.send_invoice", "sources", "policy", "access")  # fmt: skip
    for path in paths:
        page = visitor.go(f"{gateway.url}/{path}")
        page.locator(".loading").first.wait_for(state="detached")
        page.evaluate(script)
        problems = page.evaluate("axe.run()")["violations"]
        found += [(path, each["id"], each["nodes"]) for each in problems if each["impact"] in ("serious", "critical")]
    assert found == []


def test_hostile_output_and_arguments_are_shown_as_text_and_harm_nothing(gateway, visitor):
    state = gateway.call("demo.echo", {"text": HOSTILE})
    waiting = gateway.call(
        "demo.send_invoice", {"customer": HOSTILE, "amount": 1, "note": f"javascript:alert(1)\n{HOSTILE}"}
    )
    for path in (f"calls/{state['invocation_id']}", f"approvals/{waiting['approval_id']}", "calls", "", "tools"):
        page = visitor.go(f"{gateway.url}/{path}")
        page.locator(".loading").first.wait_for(state="detached")
        shown = page.locator("main").inner_text()
        assert not any(character in shown for character in "\u202e\u2066\x1b\x07\u200b"), path
        assert page.locator("main a[href^='javascript']").count() == 0
        assert page.evaluate("window.harmed") is None
    page = visitor.go(f"{gateway.url}/calls/{state['invocation_id']}")
    assert "<script>window.harmed = 1</script>" in page.get_by_label("output").inner_text()
    assert "⟦U+202E⟧gpj.exe" in page.get_by_label("output").inner_text()


def test_a_session_holds_in_every_tab_and_a_server_on_another_port_cannot_use_its_cookie(gateway, visitor):
    state = gateway.call("demo.repeat", {"text": "word ", "times": 50_000}, wait=60)
    visitor.page.reload()
    tab = visitor.new_tab()
    tab.goto(f"{gateway.url}/calls/{state['invocation_id']}")
    tab.locator(".live.on").wait_for()
    with tab.expect_download() as started:
        tab.get_by_role("button", name="Download").last.click()
    assert started.value.path().read_bytes() == b"word " * 50_000
    with collecting_cookies() as (other, cookies):
        visitor.new_tab().goto(other)
    assert cookies[0].startswith("agenttool_")
    own_page = {"cookie": cookies[0], "origin": gateway.url, "sec-fetch-site": "same-origin"}
    assert visitor.page.request.get(f"{gateway.url}/v1/approvals", headers=own_page).status == 403


def test_an_approver_remembers_the_suggested_rule_of_a_call_that_another_rule_asks_about(gateway, second_visitor):
    arguments = {"customer": "Acme", "amount": 77, "note": "by mail"}
    asked = gateway.call("demo.send_invoice", arguments)
    page = second_visitor.go(f"{gateway.url}/approvals")
    page.get_by_role("button", name="Remember…").click()
    assert "settles" not in page.get_by_label("the exact rule").inner_text()
    page.get_by_role("button", name="Allow and remember").click()
    page.get_by_text("by you.").first.wait_for()
    assert text_of(wait_for_result(gateway, asked["invocation_id"])) == "Acme got an invoice over 77"
    assert gateway.call("demo.send_invoice", arguments, wait=60)["status"] == "succeeded"


@contextmanager
def collecting_cookies():
    """Serve an empty page on another port of this host; yield its address and the cookies that it was sent."""
    cookies = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            cookies.append(self.headers["cookie"] or "")
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", cookies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.soak
def test_fifty_megabytes_of_output_are_shown_in_parts(gateway, visitor):
    state = gateway.call("demo.repeat", {"text": "<b>line</b>\n", "times": 4_200_000}, wait=60)
    page = visitor.go(f"{gateway.url}/calls/{state['invocation_id']}")
    page.get_by_role("button", name="Show the stored text/html").click()
    page.get_by_text("These are the first 262 kB of 50 MB.").wait_for()
    page.get_by_role("button", name="Show 262 kB more").click()
    page.get_by_text("These are the first 524 kB of 50 MB.").wait_for()
    assert len(page.get_by_label("stored output").inner_text()) < 600_000
    page.goto(f"{gateway.url}/calls")
    page.get_by_role("link", name="demo.repeat").wait_for()


@pytest.mark.soak
def test_eight_tabs_share_one_event_stream_and_the_next_tab_takes_over(gateway, visitor):
    streams = []
    visitor.context.on("request", lambda request: streams.append(request) if "/v1/events" in request.url else None)
    tabs = [visitor.page, *(visitor.new_tab() for _ in range(7))]
    for tab in tabs:
        tab.goto(f"{gateway.url}/approvals")
        tab.locator(".live.on").wait_for()
    opened = len(streams)
    assert opened <= 2  # the page that logged in, and the one that replaced it
    gateway.call("demo.send_invoice", {"customer": "Acme", "amount": 1})
    for tab in tabs:
        tab.locator("article").wait_for()
    tabs.pop(0).close()
    gateway.call("demo.send_invoice", {"customer": "Beta", "amount": 1})
    for tab in tabs:
        tab.locator("article").nth(1).wait_for()
    assert len(streams) == opened + 1


@pytest.mark.soak
def test_a_local_visitor_without_a_session_sees_how_to_log_in_and_no_calls_of_others(gateway, browser):
    visitor = Visitor(browser, viewport={"width": 390, "height": 800})
    for path in ("", "approvals", "policy"):
        page = visitor.go(f"{gateway.url}/{path}")
        page.get_by_text("Open the login link that the terminal printed").wait_for()
        assert page.locator("article").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visitor.complaints == []
    visitor.context.close()


@pytest.mark.soak
def test_filters_live_in_the_address_and_keys_navigate(gateway, visitor):
    gateway.call("demo.echo", {"text": "one"})
    gateway.call("demo.flaky", {})
    page = visitor.go(f"{gateway.url}/calls?status=failed")
    page.get_by_role("link", name="demo.flaky").wait_for()
    assert page.get_by_role("link", name="demo.echo").count() == 0
    page.get_by_label("Status").select_option("succeeded")
    page.get_by_role("link", name="demo.echo").wait_for()
    assert page.url.endswith("/calls?status=succeeded")
    page.locator("h1").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/calls/inv_*")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tools")


def test_a_planned_call_is_not_counted_as_running_and_names_the_calls_that_it_waits_for(gateway, visitor):
    invoice = {"tool": "demo.send_invoice", "arguments": {"customer": "Acme", "amount": 1}}
    echo = {"tool": "demo.echo", "arguments": {"text": "sent"}, "depends_on": [0]}
    _, batch = gateway.request("POST", "/v1/batches?wait=0", {"calls": [invoice, echo]})
    page = visitor.go(f"{gateway.url}/")
    page.get_by_text("1 planned").wait_for()
    assert page.locator(".now").inner_text().split() == ["0", "running", "1", "waiting", "1", "planned"]
    page.get_by_text("No call has ended in the last day.").wait_for()
    page.goto(f"{gateway.url}/calls?status=planned")
    page.get_by_role("link", name="demo.echo").click()
    notice = page.get_by_role("note")
    notice.get_by_text("waiting for approval").wait_for()
    link = notice.get_by_role("link", name="demo.send_invoice")
    assert link.get_attribute("href").endswith(batch["items"][0]["invocation_id"])
    assert page.locator(".waterfall tbody th").all_inner_texts() == ["wait for other calls"]


def test_every_page_is_reachable_in_the_menu_of_a_phone(gateway, visitor):
    page = visitor.go(f"{gateway.url}/")
    page.set_viewport_size({"width": 390, "height": 844})
    edges = page.locator("nav a").evaluate_all("links => links.map((each) => each.getBoundingClientRect().right)")
    assert (len(edges), max(edges) <= 390) == (7, True)
