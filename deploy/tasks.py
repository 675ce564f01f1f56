"""The app that the workers of the example run; put yours in its place."""  # noqa: INP001 - it is mounted

from mainspring import Mainspring

app = Mainspring()


@app.task
async def greet(name: str = "you") -> str:
    """Say hello."""
    return f"hello {name}"
