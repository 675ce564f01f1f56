"""What schemathesis must not wait for: work that is not there, as long as one may wait for it."""

from typing import Any

import schemathesis

WAIT_SECONDS_MAX = 60


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Shorten every wait that is allowed; one that is not has to be refused as it is."""
    del context, kwargs
    wait = case.body.get("wait_seconds") if isinstance(case.body, dict) else None
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        return
    if 0 < wait <= WAIT_SECONDS_MAX:
        case.body = {**case.body, "wait_seconds": 0}
