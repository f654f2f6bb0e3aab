"""Scores by words and by meaning are combined."""

import dataclasses

import pytest

from agenttool import Runtime, make_tool
from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.ranking import combine_scores
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool

KINDS = [
    "paper",
    "draft",
    "final",
    "proforma",
    "credit",
    "debit",
    "yearly",
    "monthly",
    "partial",
    "foreign",
    "tax",
    "donation",
]


def test_scores_are_combined_as_z_scores():
    joined = combine_scores({1: 0.9, 2: 0.1, 3: 0.1}, [{1: 0.301, 2: 0.3, 3: 0.309}])
    assert joined[1] > joined[3] > joined[2]
    assert all(0 < score < 1 for score in joined.values())


def test_an_unknown_similarity_counts_as_average():
    joined = combine_scores({1: 0.5, 2: 0.5, 3: 0.5}, [{1: 0.9, 2: 0.1}])
    assert joined[1] > joined[3] > joined[2]


def test_the_similarity_to_each_sentence_has_its_own_z_scores():
    loud, low = {1: 0.9, 2: 0.7, 3: 0.7, 4: 0.7}, {1: 0.1, 2: 0.1, 3: 0.3, 4: 0.1}
    joined = combine_scores({1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5}, [loud, low])
    assert min(joined[1], joined[3]) > max(joined[2], joined[4])
    assert joined[1] == pytest.approx(joined[3])


def test_a_tool_without_a_matching_word_must_stand_out_by_meaning():
    joined = combine_scores({1: 0.0, 2: 0.0, 3: 0.0, 4: 0.2}, [{1: 0.8, 2: 0.1, 3: 0.2, 4: 0.1}])
    assert set(joined) == {1, 4}


def test_tiny_differences_by_words_do_not_outweigh_meaning():
    joined = combine_scores({1: 0.001, 2: 0.0, 3: 0.0}, [{1: 0.1, 2: 0.1, 3: 0.7}])
    assert joined[3] > joined[1]


async def test_a_tool_whose_whole_title_is_asked_for_is_first():
    titles = ["Get branch protection", "Get admin branch protection", "Get status checks branch protection"]
    tools = [
        make_tool(f"protection_{number}", {}, lambda: "", title=title, description="Protection of a branch.")
        for number, title in enumerate(reversed(titles))
    ]
    async with Runtime.open(tools=tools) as rt:
        first = (await rt.search("get the protection of a branch")).matches[0]
    assert first.name.endswith("protection_2")


def test_without_similarities_scores_by_words_are_returned():
    assert combine_scores({}, []) == {}
    assert combine_scores({1: 0.5, 2: 0.0}, [{}, {}]) == {1: 0.5, 2: 0.0}


# Search quality on a small catalog of everyday tools and requests for them.
CATALOG = """
git.create_branch | Start a new line of work from a commit. | name from_commit
git.delete_branch | Remove a line of work that is merged. | name
git.list_commits | Show the history of a branch, newest first. | branch since author
git.merge_pull_request | Merge an approved pull request into its target. | number method
git.create_pull_request | Propose changes for review. | title body head target
git.review_pull_request | Approve a pull request or ask for changes. | number verdict
issues.create_issue | Report a bug or ask for a feature. | title body labels
issues.close_issue | Mark an issue as done. | number reason
issues.assign_issue | Give an issue to a person. | number assignee
issues.search_issues | Find issues by text, label or author. | query label author
mail.send_email | Send a message to one or more people. | to subject body attachments
mail.list_unread | Show messages in the inbox nobody has opened. | folder limit
mail.archive_thread | Put a conversation away. | thread_id
calendar.create_event | Put a meeting in the calendar and invite people. | title start end attendees
calendar.find_free_slot | Find a time when everybody is available. | attendees duration
calendar.cancel_event | Call off a meeting and tell the guests. | event_id
files.read_file | Give the text of a file. | path encoding
files.write_file | Put text into a file, replacing what was there. | path content
files.list_directory | Show what is inside a folder. | path recursive
files.move_file | Rename a file or put it in another folder. | source destination
files.delete_file | Remove a file for good. | path
shop.create_invoice | Bill a customer for an order. | customer_id lines due_date
shop.refund_payment | Give money back to a customer. | payment_id amount
shop.track_shipment | Tell where a parcel is. | tracking_number carrier
shop.list_orders | Show the orders of a customer. | customer_id status
db.run_query | Run SQL against the warehouse and give the rows. | sql limit
db.describe_table | Show the columns of a table and their types. | table
db.export_csv | Write the result of a query as comma-separated values. | sql path
cloud.restart_service | Stop a service and start it again. | service region
cloud.scale_service | Change how many copies of a service run. | service replicas
cloud.read_logs | Show recent log lines of a service. | service since level
cloud.create_bucket | Make a place for objects. | bucket region
cloud.rotate_secret | Replace a credential by a new one. | secret_name
chat.post_message | Say something in a channel. | channel text
chat.create_channel | Open a room for a topic. | name members
web.fetch_page | Download a web page as text. | url
web.search_web | Look something up on the internet. | query
maps.get_directions | Tell the way from one place to another. | origin destination mode
weather.getForecast | Tell tomorrow's weather for a place. | city days
translate.translateText | Put text into another language. | text target_language
images.resizeImage | Make a picture smaller or larger. | image width height
文档.翻译文档 | 把文档翻译成另一种语言 | 语言
"""

WANTED = """
please create a new branch | git.create_branch
drop the merged branch | git.delete_branch
show me the commit history | git.list_commits
merge the pull request | git.merge_pull_request
open a pull request with my changes | git.create_pull_request
I need to approve a pull request | git.review_pull_request
file a bug report | issues.create_issue
close this issue | issues.close_issue
assign the issue to Ada | issues.assign_issue
find issues with the label urgent | issues.search_issues
send an email to the team | mail.send_email
unread messages in my inbox | mail.list_unread
archive this conversation | mail.archive_thread
schedule a meeting | calendar.create_event
when is everybody free | calendar.find_free_slot
cancel the meeting | calendar.cancel_event
read the contents of a file | files.read_file
write text to a file | files.write_file
what is in this folder | files.list_directory
rename a file | files.move_file
delete a file | files.delete_file
bill the customer | shop.create_invoice
refund the money | shop.refund_payment
where is my parcel | shop.track_shipment
orders of a customer | shop.list_orders
run a SQL query | db.run_query
columns of the table | db.describe_table
export as csv | db.export_csv
restart the service | cloud.restart_service
run more replicas of the service | cloud.scale_service
look at the logs | cloud.read_logs
new storage bucket | cloud.create_bucket
rotate credentials | cloud.rotate_secret
post in the channel | chat.post_message
download a webpage from a url | web.fetch_page
search the web | web.search_web
directions to the airport | maps.get_directions
weather forecast for the weekend | weather.getForecast
transalte this text | translate.translateText
resize a picture | images.resizeImage
createPullRequest | git.create_pull_request
翻译 | 文档.翻译文档
"""


def rows(text):
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def everyday():
    index, known = ToolIndex(), {}
    for qualified, description, parameters in rows(CATALOG):
        namespace, _, name = qualified.partition(".")
        schema = {"type": "object", "properties": {each: {} for each in parameters.split()}}
        tool = scripted_tool(name, namespace=namespace, schema=schema)
        declaration = replace(tool.declaration, description=description)
        entry = Catalog().prepare(dataclasses.replace(tool, declaration=declaration))[0]
        index.put(entry)
        known[entry.tool_id] = entry
    while index.catch_up(100):
        pass
    return index, known


def test_nearly_all_requests_find_their_tool_first_and_all_among_five(everyday):
    index, known = everyday
    first, among_five = [], []
    for query, wanted in rows(WANTED):
        found = [known[each.tool_id].qualified_name for each in index.find(query, known, 5)]
        if found[:1] != [wanted]:
            first.append((query, wanted, found[:2]))
        if wanted not in found:
            among_five.append((query, wanted))
    assert len(first) <= 3, first
    assert among_five == []
