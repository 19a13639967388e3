"""Data for inputs: supported files, the conversion of pictures, and all errors."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from firmwright.data.reading import read_columns
from firmwright.data.sample_sources import DataFile, DataFolders, DataSource, Preprocess, list_files
from firmwright.data.samples import Column
from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor

INPUT = Tensor("x", (1, 3, 2, 4), "float32")


def read(
    folder: Path, source: DataSource, tensor: Tensor = INPUT, count: int | None = None
) -> Column:
    columns = read_columns([tensor], {"x": source}, DataFolders(folder, folder / "cache"), count)
    return columns["x"]


def complaints(
    folder: Path, source: DataSource, tensor: Tensor = INPUT, count: int = 99
) -> list[str]:
    with pytest.raises(UserError) as raised:
        read(folder, source, tensor, count)
    return str(raised.value).splitlines()


def files(kind: str, *paths: str, **preprocess: Any) -> DataSource:
    how = Preprocess(**preprocess) if kind == "pictures" else None
    return DataSource(kind, tuple(DataFile(p) for p in paths), None, how)


def picture(path: Path, width: int = 4, height: int = 2, mode: str = "RGB") -> np.ndarray:
    """Write a picture whose pixels all differ; return its RGB values."""
    values = np.arange(width * height * 3, dtype="uint8").reshape(height, width, 3) * 5
    image = Image.fromarray(values).convert(mode)
    image.save(path)
    return np.asarray(image.convert("RGB"))


def test_picture_as_it_is(tmp_path: Path) -> None:
    values = picture(tmp_path / "a.png")
    column = read(tmp_path, files("pictures", "a.png"))
    expected = values.transpose(2, 0, 1)[None].astype("float32")
    assert column.arrays[0].dtype == np.float32
    np.testing.assert_array_equal(column.arrays[0], expected)
    assert column.origins[0].name == "a.png"
    assert column.origins[0].picture == tmp_path / "a.png"


def test_pictures_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "installed" / "gallery_of_tests"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('is not imported')")
    values = picture(package / "a.png")
    source = DataSource("pictures", (DataFile("*.png", package=package.name),), None, Preprocess())
    assert list_files(source.files[0], tmp_path) == []
    monkeypatch.syspath_prepend(package.parent)
    assert list_files(source.files[0], tmp_path) == [package / "a.png"]
    expected = values.transpose(2, 0, 1)[None].astype("float32")
    np.testing.assert_array_equal(read(tmp_path, source).arrays[0], expected)


def test_colour_mean_std_and_layout(tmp_path: Path) -> None:
    values = picture(tmp_path / "a.png").astype("float32")
    how = {"colour": "BGR", "mean": (1.0, 2.0, 3.0), "std": (255.0, 2.0, 4.0), "layout": "NHWC"}
    tensor = Tensor("x", (1, 2, 4, 3), "float32")
    (array,) = read(tmp_path, files("pictures", "a.png", **how), tensor).arrays
    mean, std = np.array([1, 2, 3], "float32"), np.array([255, 2, 4], "float32")
    expected = (values[:, :, ::-1] - mean) / std
    np.testing.assert_array_equal(array[0], expected)


def test_resize_crop_and_grey(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 8, 4)
    grey = Tensor("x", (1, 1, 2, 2), "float32")
    how = {"colour": "grey", "resize": 2, "filter": "box", "crop": (2, 2)}
    (array,) = read(tmp_path, files("pictures", "a.png", **how), grey).arrays
    image = Image.open(tmp_path / "a.png").resize((4, 2), Image.Resampling.BOX)
    expected = np.asarray(image.crop((1, 0, 3, 2)).convert("L"), "float32")
    np.testing.assert_array_equal(array[0, 0], expected)


def test_picture_for_a_quantized_input(tmp_path: Path) -> None:
    values = picture(tmp_path / "a.png").transpose(2, 0, 1)[None]
    scaled = Tensor("x", INPUT.shape, "int8", 1 / 255, -128)
    (array,) = read(tmp_path, files("pictures", "a.png", std=(255.0,)), scaled).arrays
    np.testing.assert_array_equal(array, (values.astype(int) - 128).astype("int8"))
    plain = Tensor("x", INPUT.shape, "int8")
    (array,) = read(tmp_path, files("pictures", "a.png", mean=(128.0,)), plain).arrays
    np.testing.assert_array_equal(array, (values.astype(int) - 128).astype("int8"))
    (said,) = complaints(tmp_path, files("pictures", "a.png", mean=(-100.0,)), plain, 1)
    assert "values from 100 to 215; the input 'x' needs whole numbers from -128 to 127" in said


def test_every_kind_of_picture_gives_the_same(tmp_path: Path) -> None:
    for name, mode in (("a.png", "RGB"), ("b.png", "RGBA"), ("c.bmp", "RGB"), ("d.webp", "RGB")):
        if name == "d.webp":
            picture(tmp_path / "x.png")
            Image.open(tmp_path / "x.png").save(tmp_path / name, lossless=True)
        else:
            picture(tmp_path / name, mode=mode)
    names = ("a.png", "b.png", "c.bmp", "d.webp")
    digests = {o.sha256 for o in read(tmp_path, files("pictures", *names)).origins}
    assert len(digests) == 1


def test_pixels_of_sixteen_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 4), 300, "uint16")).save(tmp_path / "a.png")
    (said,) = complaints(tmp_path, files("pictures", "a.png"))
    assert "a.png: pixels of more than 8 bits (I;16), which would be clipped at 255" in said


def test_folder_and_pattern_in_order_of_name(tmp_path: Path) -> None:
    (tmp_path / "shots" / "deeper").mkdir(parents=True)
    for name in ("b.png", "a.png", ".hidden", "deeper/c.png"):
        picture(tmp_path / "shots" / name) if name[0] != "." else (
            tmp_path / "shots" / name
        ).write_text("no picture")
    folder = read(tmp_path, files("pictures", "shots"))
    assert [o.name for o in folder.origins] == ["a.png", "b.png"]
    pattern = files("pictures", "shots/*/*.png", "shots/b.*")
    assert [o.name for o in read(tmp_path, pattern).origins] == ["c.png", "b.png"]
    listed = [p.name for file in pattern.files for p in list_files(file, tmp_path)]
    assert listed == ["c.png", "b.png"]
    assert len(read(tmp_path, files("pictures", "shots"), count=1).arrays) == 1


def test_file_by_digest_from_the_mirror_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    picture(mirror / "renamed.png")
    digest = hashlib.sha256((mirror / "renamed.png").read_bytes()).hexdigest()
    monkeypatch.setenv("FIRMWRIGHT_MIRROR", str(mirror))
    source = DataSource(
        "pictures", (DataFile(sha256=digest, name="street.png"),), None, Preprocess()
    )
    assert read(tmp_path, source).origins[0].name == "street.png"
    (mirror / "renamed.png").unlink()
    assert len(read(tmp_path, source).arrays) == 1
    (tmp_path / "cache" / "data" / digest).write_bytes(b"damaged")
    assert complaints(tmp_path, source) == [
        f"street.png: no folder in FIRMWRIGHT_MIRROR has the file with sha256 {digest}, and the "
        "recipe states no `url` for it; add one of them"
    ]


def test_arrays_by_digest_are_read_as_their_name_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(0).random((2, 1, 3, 2, 4)).astype("float32")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    np.savez(mirror / "inputs.npz", x=data)
    digest = hashlib.sha256((mirror / "inputs.npz").read_bytes()).hexdigest()
    monkeypatch.setenv("FIRMWRIGHT_MIRROR", str(mirror))
    source = DataSource("arrays", (DataFile(sha256=digest, name="inputs.npz"),))
    np.testing.assert_array_equal(np.stack(read(tmp_path, source).arrays), data)


def test_arrays_raw_tensors_and_functions_hold_the_same(tmp_path: Path) -> None:
    data = np.random.default_rng(0).random((3, 1, 3, 2, 4)).astype("float32")
    np.save(tmp_path / "first.npy", data[:2])
    np.savez(tmp_path / "last.npz", x=data[2:], other=data)
    for i, sample in enumerate(data):
        (tmp_path / f"{i}.bin").write_bytes(sample.astype("<f4").tobytes())
    (tmp_path / "made.py").write_text(
        f"import numpy\ndef samples():\n    return numpy.fromfile(r'{tmp_path}/all.bin', 'f4')"
        ".reshape(3, 1, 3, 2, 4)\n"
    )
    data.tofile(tmp_path / "all.bin")
    columns = [
        read(tmp_path, source)
        for source in (
            files("arrays", "first.npy", "last.npz"),
            files("raw", "[0-9].bin"),
            DataSource("python", function="made:samples"),
        )
    ]
    for column in columns:
        np.testing.assert_array_equal(np.stack(column.arrays), data)
    names = [[o.name for o in c.origins] for c in columns]
    assert names == [
        ["first.npy[0]", "first.npy[1]", "last.npz"],
        ["0.bin", "1.bin", "2.bin"],
        ["made:samples[0]", "made:samples[1]", "made:samples[2]"],
    ]
    assert len({o.sha256 for c in columns for o in c.origins}) == 3


def test_everything_wrong_with_pictures_is_said_at_once(tmp_path: Path) -> None:
    picture(tmp_path / "good.png")
    picture(tmp_path / "large.png", 5, 2)
    whole = (tmp_path / "large.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[:-40])
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("hello")
    names = ("good.png", "large.png", "cut.png", "empty.png", "text.png", "none.png", "no*.gif")
    said = complaints(tmp_path, files("pictures", *names))
    assert [line.split(": ")[0] for line in said] == [f"{tmp_path}/{name}" for name in names[1:]]
    assert "is NCHW [1, 3, 2, 5] after preprocessing; the input 'x' is [1, 3, 2, 4]" in said[0]
    assert all("not a supported picture" in line for line in said[1:4])
    assert "No such file" in said[4]
    assert "no file matches" in said[5]


def test_a_picture_that_claims_to_be_huge_is_not_unpacked(tmp_path: Path) -> None:
    header = b"P5 60000 60000 255\n"
    (tmp_path / "bomb.pgm").write_bytes(header + b"\0" * 100)
    (said,) = complaints(tmp_path, files("pictures", "bomb.pgm"))
    assert "bomb.pgm" in said
    assert "pixels" in said


def test_everything_wrong_with_arrays_is_said_at_once(tmp_path: Path) -> None:
    good = np.zeros((2, 1, 3, 2, 4), "float32")
    spoilt = good.copy()
    spoilt[1, 0, 0, 0, 0] = np.nan
    np.save(tmp_path / "nan.npy", spoilt)
    np.save(tmp_path / "type.npy", good.astype("float64"))
    np.save(tmp_path / "shape.npy", good[..., :3])
    np.savez(tmp_path / "name.npz", y=good)
    (tmp_path / "text.npy").write_text("hello")
    names = ("nan.npy", "type.npy", "shape.npy", "name.npz", "text.npy", "none.npy")
    said = complaints(tmp_path, files("arrays", *names))
    for line, part in zip(
        said,
        (
            "NaN in 1 of 2 samples (sample 1)",
            "is float64; the input 'x' is float32",
            "has shape [2, 1, 3, 2, 3]; expected a leading sample axis and then [1, 3, 2, 4]",
            "no array for the network's input 'x' (it has: y)",
            "not an .npy of a plain array",
            "not an .npy of a plain array",
        ),
        strict=True,
    ):
        assert part in line


def test_axes_of_an_array_are_those_of_the_input(tmp_path: Path) -> None:
    good = np.arange(48, dtype="float32").reshape(2, 1, 3, 2, 4)
    for shape in ((2, 3, 2, 4), (2, 24), (2, 3, 1, 2, 4)):
        np.save(tmp_path / "x.npy", good.reshape(shape))
        np.testing.assert_array_equal(read(tmp_path, files("arrays", "x.npy")).arrays, good)
    np.save(tmp_path / "x.npy", good.transpose(0, 1, 3, 4, 2))
    (said,) = complaints(tmp_path, files("arrays", "x.npy"))
    assert "has shape [2, 1, 2, 4, 3]; expected a leading sample axis and then [1, 3, 2, 4]" in said


def test_raw_tensor_of_another_size(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0" * 95)
    assert (
        "expected 96 bytes, one sample of the input 'x'"
        in complaints(tmp_path, files("raw", "a.bin"))[0]
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f():\n    return 1 / 0\n", "m.py:2: ZeroDivisionError: division by zero (m:f)"),
        ("def g():\n    pass\n", "m has no function 'f'; known: g"),
        ("def f(:\n", "m.py:1: invalid syntax (m:f)"),
        ("raise SystemExit(0)\n", "m.py:1: SystemExit: 0 (m:f)"),
        ("import absent\n", "m.py:1: ModuleNotFoundError: No module named 'absent' (m:f)"),
        ("def f():\n    return [1]\n", "returned list, not a numpy array"),
    ],
)
def test_function_that_is_none(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "m.py").write_text(code)
    assert message in complaints(tmp_path, DataSource("python", function="m:f"))[0]


def test_inputs_and_sources_must_match(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 1), "float32"))
    inputs = [Tensor("a", (1,), "float32"), Tensor("image", (1,), "float32")]
    sources = {"a": files("arrays", "a.npy"), "imag": files("arrays", "a.npy")}
    with pytest.raises(UserError) as raised:
        read_columns(inputs, sources, DataFolders(tmp_path, tmp_path), 3)
    assert str(raised.value).splitlines() == [
        "no data for the network's input 'image'; did you mean 'imag'?",
        "the network has no input 'imag'; did you mean 'image'?",
        "a.npy: has 2 samples; the recipe needs 3",
    ]


def test_all_samples_need_the_same_number_for_each_input(tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 3)):
        np.save(tmp_path / f"{name}.npy", np.zeros((count, 1), "float32"))
    inputs = [Tensor(n, (1,), "float32") for n in "ab"]
    sources = {n: files("arrays", f"{n}.npy") for n in "ab"}
    with pytest.raises(UserError, match="different numbers of samples: 2 for 'a', 3 for 'b'"):
        read_columns(inputs, sources, DataFolders(tmp_path, tmp_path), None)
