"""What schemathesis must not send: a wait for work."""

from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    del context
    if isinstance(body, dict) and isinstance(body.get("wait_seconds"), int | float):
        body["wait_seconds"] = min(body["wait_seconds"], 0)
    return body
