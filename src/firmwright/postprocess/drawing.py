"""Draws the found boxes on a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firmwright.data.pictures import open_picture, visible_part
from firmwright.data.sample_sources import Preprocess
from firmwright.postprocess.boxes import Box

COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#800000")
"""The colors of classes. The index is the class's number modulo the number of colors."""

TEXT_PIXELS = 14


def draw_boxes(
    picture: Path, preprocess: Preprocess, boxes: Sequence[Box], names: Sequence[str], target: Path
) -> None:
    """Write ``picture`` as PNG with every box, its class and its score.

    Boxes are relative to the part of the picture that ``preprocess`` passes to the network.
    """
    from PIL import ImageDraw, ImageFont

    image = open_picture(picture.read_bytes(), picture.name)
    left, top, right, bottom = visible_part(image.size, preprocess)
    width, height = image.size
    font = ImageFont.load_default(TEXT_PIXELS)
    canvas = ImageDraw.Draw(image)
    for box in reversed(boxes):  # boxes with higher scores are on top
        colour = COLORS[box.class_index % len(COLORS)]
        x0, x1 = (round((left + x * (right - left)) * width) for x in (box.x0, box.x1))
        y0, y1 = (round((top + y * (bottom - top)) * height) for y in (box.y0, box.y1))
        x0, x1 = max(0, x0), min(width - 1, x1)
        y0, y1 = max(0, y0), min(height - 1, y1)
        if x1 < x0 or y1 < y0:
            continue  # the box is outside the picture
        canvas.rectangle((x0, y0, x1, y1), outline=colour, width=2)
        text = f"{names[box.class_index]} {box.score:.2f}"
        corner = (x0 + 3, max(0, y0 - TEXT_PIXELS - 3))
        canvas.rectangle(canvas.textbbox(corner, text, font=font), fill=colour)
        canvas.text(corner, text, fill="white", font=font)
    image.save(target, format="PNG")
