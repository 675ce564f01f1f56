"""The app: a task that makes small copies of a folder of images, in a process one can kill."""

from pathlib import Path
from typing import Any

from PIL import Image

from mainspring import Mainspring, TaskContext

app = Mainspring()


# Decoding an image happens in C code, which nothing in Python can interrupt. With `process=True`
# each task has a process of its own: a timeout, a cancellation or a crash ends that and no more.
@app.task("resize_folder", process=True, timeout=600, max_retries=2)
def resize_folder(ctx: TaskContext, folder: str, size: int = 320) -> dict[str, Any]:
    """Write a copy of each image of a folder, at most `size` pixels wide and high."""
    images = sorted(path for path in Path(folder).glob("*.png"))
    small = Path(folder) / f"small-{size}"
    small.mkdir(exist_ok=True)
    for number, path in enumerate(images, start=1):
        copy = small / path.name
        # An attempt that follows a killed one goes on where that one was.
        if not copy.exists():
            resize(path, copy, size)
        ctx.progress({"done": number, "of": len(images)})
    return {"folder": str(small), "images": len(images)}


def resize(path: Path, copy: Path, size: int) -> None:
    """Write one small copy; it has its name only when it is complete."""
    unfinished = copy.with_suffix(".part")
    with Image.open(path) as image:
        image.thumbnail((size, size))
        image.save(unfinished, format="PNG")
    unfinished.replace(copy)
