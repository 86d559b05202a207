"""ImageDecoder beside Pillow: every format and kind of file; what is damaged, too large or lacks a codec."""
import ctypes
import io
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

import nacre_c

CODECS = nacre_c.BUILD / "libnacre_codecs.so"
NAMES = ("JPEG", "PNG", "WEBP", "TIFF", "JPEG2000")
RNG = np.random.default_rng(5)
SLOPE = np.add.outer(np.arange(21), np.arange(33))[..., None]
SMOOTH = (SLOPE * [3, 2, 1] + [10, 60, 110]).clip(0, 255).astype(np.uint8)
ROUGH = RNG.integers(0, 256, (7, 5, 3), np.uint8)
ONE = np.uint8([[[200, 100, 50]]])


def built(name):
    """Is the format in the shared object? Its table is a version and a pointer for each."""
    if not CODECS.exists():
        return False
    class Table(ctypes.Structure):
        _fields_ = [("version", ctypes.c_int), ("decode", ctypes.c_void_p * len(NAMES))]
    try:
        return bool(Table.in_dll(ctypes.CDLL(str(CODECS)), "nacre_codecs_table").decode[NAMES.index(name)])
    except OSError:  # a library that it was built with is gone
        return False


def model(pixel_format="RGB"):
    node = helper.make_node("ImageDecoder", ["x"], ["y"], name="it", pixel_format=pixel_format)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.UINT8, [None, None, None])])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])


def decoded(env, data, pixel_format="RGB"):
    with env.session(model(pixel_format)) as session:
        return session.run({"x": np.frombuffer(data, np.uint8)})["y"]


def encoded(image, kind, **how):
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def by_pillow(data, pixel_format="RGB"):
    image = Image.open(io.BytesIO(data))
    if pixel_format == "Grayscale":
        return np.asarray(image.convert("RGB").convert("L"))[..., None]
    return np.asarray(image.convert("RGB"))[..., ::-1 if pixel_format == "BGR" else 1]


@pytest.mark.parametrize("kind, how", [("BMP", {}), ("PPM", {}), ("JPEG", {}), ("JPEG", {"progressive": True}),
                                       ("JPEG", {"quality": 95, "subsampling": 0}), ("PNG", {}),
                                       ("WEBP", {"lossless": True}), ("WEBP", {}), ("TIFF", {}),
                                       ("TIFF", {"compression": "tiff_lzw"}), ("JPEG2000", {})])
def test_formats(env, kind, how):
    if kind in NAMES and not built(kind):
        pytest.skip(f"libnacre_codecs.so was built without {kind}")
    for pixels in (SMOOTH, ROUGH, ONE):
        data = encoded(Image.fromarray(pixels), kind, **how)
        for pixel_format in ("RGB", "BGR", "Grayscale"):
            got = decoded(env, data, pixel_format)
            assert got.dtype == np.uint8
            np.testing.assert_array_equal(got, by_pillow(data, pixel_format), f"{kind} {how} {pixel_format}")


@pytest.mark.parametrize("kind", ["BMP", "PPM", "JPEG", "PNG", "TIFF", "JPEG2000"])
def test_gray_files(env, kind):
    if kind in NAMES and not built(kind):
        pytest.skip(f"libnacre_codecs.so was built without {kind}")
    data = encoded(Image.fromarray(SMOOTH[..., 0]), kind)
    np.testing.assert_array_equal(decoded(env, data), by_pillow(data))


def test_palettes_and_many_bits(env):
    palette = encoded(Image.fromarray(SMOOTH).quantize(9), "BMP")
    np.testing.assert_array_equal(decoded(env, palette), by_pillow(palette))
    alpha = encoded(Image.fromarray(np.dstack([ROUGH, np.full((7, 5), 255, np.uint8)])), "BMP")
    np.testing.assert_array_equal(decoded(env, alpha), ROUGH)
    np.testing.assert_array_equal(decoded(env, b"P3 # a comment\n2 1 255\n1 2 3  4 5 6\n"), [[[1, 2, 3], [4, 5, 6]]])
    np.testing.assert_array_equal(decoded(env, b"P2 2 1 15 0 15"), [[[0, 0, 0], [255, 255, 255]]])
    np.testing.assert_array_equal(decoded(env, b"P5 2 1 65535\n" + struct.pack(">HH", 0, 65535))[0, :, 0], [0, 255])


def refused(env, data, *words):
    with pytest.raises(nacre_c.NacreError) as e:
        decoded(env, data)
    assert e.value.op == "ImageDecoder" and e.value.node == "it"
    for word in words:
        assert word in str(e.value), e.value


def test_what_is_damaged(env):
    refused(env, b"", "0 bytes begin as no image")
    refused(env, b"GIF89a" + bytes(40), "46 bytes begin as no image")
    for kind in ("BMP", "PPM", *NAMES):
        if kind in NAMES and not built(kind):
            continue
        data = encoded(Image.fromarray(SMOOTH), kind)
        for cut in (12, len(data) // 4, len(data) // 2):
            refused(env, data[:cut])
        for at in RNG.integers(8, len(data), 25):
            broken = bytearray(data)
            broken[at] ^= 0xff
            try:
                decoded(env, bytes(broken))
            except nacre_c.NacreError as e:
                assert e.op == "ImageDecoder"


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def test_bombs(env):
    header = b"BM" + struct.pack("<IIIIiiHHIIiiII", 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0)
    refused(env, header, "fewer bytes than pixels")
    refused(env, b"P6 99999999 99999999 255\n", "fewer bytes than pixels")
    refused(env, b"P6 99999999999999999999 1 255\n")
    if built("PNG"):
        size = struct.pack(">IIBBBBB", 900000, 900000, 8, 2, 0, 0, 0)
        data = chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
        refused(env, b"\x89PNG\r\n\x1a\n" + data)
    if built("JPEG"):
        data = bytearray(encoded(Image.fromarray(SMOOTH), "JPEG"))
        at = data.index(b"\xff\xc0") + 5
        data[at:at + 4] = struct.pack(">HH", 65000, 65000)
        refused(env, bytes(data), "65000 rows of 65000 pixels", "at most 134217728")


def test_a_codec_that_is_missing_is_named(tmp_path):
    script = ("import sys; sys.path.insert(0, sys.argv[1]); import nacre_c, test_images\n"
              "with nacre_c.Env(1) as env:\n"
              "    try: test_images.decoded(env, b'\\x89PNG\\r\\n\\x1a\\n' + bytes(40))\n"
              "    except nacre_c.NacreError as e: print(e)\n")
    said = subprocess.run([sys.executable, "-c", script, os.path.dirname(__file__)], capture_output=True, text=True,
                          env={**os.environ, "NACRE_CODECS": str(tmp_path / "nowhere.so")})
    assert "the image is PNG: needs libnacre_codecs.so, which cannot be loaded" in said.stdout, said


def test_pixel_formats_are_checked(env):
    with pytest.raises(nacre_c.NacreError, match="pixel_format is 'CMYK', expected RGB, BGR or Grayscale"):
        env.session(model("CMYK"))
