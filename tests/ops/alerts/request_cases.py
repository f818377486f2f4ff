"""What the alerts about requests fire on, and what lies next to it."""

from tests.ops.alerts.case import Case

_REQUESTS = 'samovar_requests_total{{outcome="{}",route="/v1/chat/completions"}}'
_COMPLETED, _CANCELLED, _INVALID, _REFUSED, _FAILED = (
    _REQUESTS.format(outcome) for outcome in ("completed", "cancelled", "invalid", "refused", "failed")
)
_SLOW = {
    f'samovar_time_to_first_token_seconds_bucket{{cache="{cache}",le="{bound}"}}': "0x{n}"
    for cache in ("hit", "miss")
    for bound in ("1", "30")
}

REQUEST_CASES: dict[str, tuple[Case, ...]] = {
    "SamovarQueueFull": (
        Case(
            "60 of 64 places are taken",
            {"samovar_requests_waiting": "60x{n}"},
            fires=("SamovarQueueFull",),
            told="mac-1 has 93.75% of its queue taken: the next burst of requests is refused.",
        ),
        Case("40 of 64 places are taken", {"samovar_requests_waiting": "40x{n}"}),
        Case("a burst of three minutes", {"samovar_requests_waiting": "1x56 64x{n}"}),
        Case(
            "no queue is allowed at all",
            {"samovar_requests_max_waiting": "0x{n}", "samovar_requests_waiting": "0x{n}"},
        ),
    ),
    "SamovarRequestsRefused": (
        Case("one in eleven is turned away", {_REFUSED: "0+1x{n}"}, fires=("SamovarRequestsRefused",)),
        Case("one in twenty-five is turned away", {_COMPLETED: "0+24x{n}", _REFUSED: "0+1x{n}"}),
        Case("every second request is a client's mistake", {_INVALID: "0+10x{n}"}),
        Case(
            "one of three is turned away while hardly anybody asks",
            {_COMPLETED: "0+2x{n}", _REFUSED: "0+1x{n}"},
        ),
        Case("a burst is turned away", {_REFUSED: "0x57 20x{n}"}),
    ),
    "SamovarErrorsHigh": (
        Case(
            "one in thirty fails", {_COMPLETED: "0+29x{n}", _FAILED: "0+1x{n}"}, fires=("SamovarErrorsHigh",)
        ),
        Case("one in seventy fails", {_COMPLETED: "0+69x{n}", _FAILED: "0+1x{n}"}),
        Case("a single one fails on a quiet day", {_COMPLETED: "0+1x{n}", _FAILED: "0x52 1x{n}"}),
        Case("clients go away, and ask for nonsense", {_CANCELLED: "0+10x{n}", _INVALID: "0+10x{n}"}),
        Case("many fail at once, in passing", {_FAILED: "0x57 20x{n}"}),
    ),
    "SamovarTTFTHigh": (
        Case("replies begin after half a minute and more", _SLOW, fires=("SamovarTTFTHigh",)),
        Case(
            "one in ten begins after one minute",
            {'samovar_time_to_first_token_seconds_bucket{cache="miss",le="30"}': "0x{n}"},
            fires=("SamovarTTFTHigh",),
        ),
        Case(
            "one in ten does so since a quarter of an hour",
            {'samovar_time_to_first_token_seconds_bucket{cache="miss",le="30"}': "0+1x45 45x{n}"},
        ),
        Case("cold prompts take up to half a minute, as they may"),
        Case(
            "a few cold prompts take long on a quiet day",
            {
                **_SLOW,
                **{
                    f"samovar_time_to_first_token_seconds_{sample}": "0+1x{n}"
                    for sample in (
                        'bucket{cache="hit",le="120"}',
                        'bucket{cache="hit",le="+Inf"}',
                        'count{cache="hit"}',
                    )
                },
                'samovar_time_to_first_token_seconds_count{cache="miss"}': "0x{n}",
            },
        ),
    ),
}
