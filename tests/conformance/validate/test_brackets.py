from agenttool.conformance.validate.brackets import Brackets, Run


def runs(chunks, *, within=False):
    brackets = Brackets()
    for chunk in chunks:
        brackets.enter(chunk)
        while run := brackets.next_run(within=within):
            yield run


def test_brackets_of_one_direction_come_in_one_go():
    assert list(runs([b"[[[{ ]]"])) == [Run(0, ord("["), 4), Run(5, ord("]"), 2)]


def test_a_string_may_end_in_a_later_chunk_and_hide_its_brackets():
    text = b'{"[\\"[\\\\": "]"}'
    for cut in range(len(text)):
        found = [run.byte for run in runs([text[:cut], text[cut:]])]
        assert found == [ord("{"), ord("}")]


def test_within_a_document_flat_values_are_passed_over():
    assert [run.start for run in runs([b'{"a":[1,2],"b":{"c":"]"},"d":[[]]}'], within=True)] == [0, 29, 31]
