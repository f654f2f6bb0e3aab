"""What every contestant is asked: the same sum, and the same sleep."""

A, B = 41_000_000, 1_234_567
ARGUMENTS = {"a": A, "b": B}
ARGUMENTS_JSON = f'{{"a":{A},"b":{B}}}'
SUM = str(A + B)
"""Unlikely enough to be found in a result by chance."""

NAP_S = 0.01


def show_sum(result: object) -> bool:
    """Tell whether a contestant's result, whatever its shape, has the sum in it."""
    return SUM in repr(result)
