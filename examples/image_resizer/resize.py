"""Resize a folder and watch: ``python resize.py FOLDER [SIZE] [--cancel]``."""

import argparse
import asyncio
from pathlib import Path

from PIL import Image
from resizer import app, resize_folder

IMAGES = 12


def make_images(folder: Path) -> None:
    """Something to work on: large pictures of a colour wheel, so to speak."""
    folder.mkdir()
    grey = Image.linear_gradient("L").resize((3000, 2000))
    for number in range(IMAGES):
        hue = Image.new("L", grey.size, 256 * number // IMAGES)
        image = Image.merge("HSV", (hue, grey, Image.new("L", grey.size, 200)))
        image.convert("RGB").save(folder / f"{number:02}.png", compress_level=1)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("size", type=int, nargs="?", default=320)
    parser.add_argument("--cancel", action="store_true", help="cancel it in mid-work")
    arguments = parser.parse_args()
    if not arguments.folder.exists():
        make_images(arguments.folder)
        print(f"made {IMAGES} images in {arguments.folder}")
    async with app:
        folder = str(arguments.folder.resolve())
        handle = await resize_folder.submit(folder=folder, size=arguments.size)
        task, shown = await handle.refresh(), None
        while task.completed_at is None:
            if task.progress != shown:
                shown = task.progress
                print(f"{shown['done']} of {shown['of']}", flush=True)
                if arguments.cancel:
                    print(await handle.cancel())
                    arguments.cancel = False
            await asyncio.sleep(0.05)
            task = await handle.refresh()
        print(f"{task.status}: {task.result or task.progress}")


asyncio.run(main())
