"""The tool of these programs."""


def sky(town: str, days: int) -> str:
    """What it says of a town, as JSON."""
    assert days == 2
    return f'{{"sky": "clear", "wind": "from the west", "town": "{town}"}}'


def weather(town: str, days: int) -> str:
    """What the sky is like over a town."""
    return sky(town, days)
