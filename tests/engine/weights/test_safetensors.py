"""Folders of safetensors: read as they were written, and refused by name when they are broken."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from engine.api import BadModel
from engine.quant import dequantise
from engine.weights.safetensors import INDEX, SafetensorsFolder
from engine.weights.tensors import Tensors

WHOLE = {
    "a.weight": torch.randn(3, 8).bfloat16(),
    "a.bias": torch.randn(3).half(),
    "b": torch.randn(5, 2),
    "one": torch.tensor(2.5),
}


def write(folder: Path, tensors: dict[str, torch.Tensor] | None = None, config: object = None) -> Path:
    """A folder of one file."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "x"} if config is None else config))
    save_file(WHOLE if tensors is None else tensors, folder / "model.safetensors")
    return folder


def write_sharded(folder: Path, places: object = None) -> Path:
    """A folder of two files and an index."""
    write(folder)
    (folder / "model.safetensors").unlink()
    names = {"one.safetensors": ["a.weight", "one"], "two.safetensors": ["a.bias", "b"]}
    for shard, inside in names.items():
        save_file({name: WHOLE[name] for name in inside}, folder / shard)
    found = {name: shard for shard, inside in names.items() for name in inside}
    (folder / INDEX).write_text(json.dumps({"weight_map": found if places is None else places}))
    return folder


@pytest.mark.parametrize("write_it", [write, write_sharded])
def test_tensors_are_read_as_they_were_written(tmp_path: Path, write_it) -> None:
    with SafetensorsFolder(write_it(tmp_path / "m")) as folder:
        assert set(folder.tensors) == set(WHOLE)
        for name, tensor in WHOLE.items():
            info = folder.tensor(name)
            assert info.shape == tuple(tensor.shape)
            assert info.size == tensor.nbytes == folder.raw(name).size
            assert info.elements == tensor.numel()
            np.testing.assert_array_equal(dequantise(folder, name), tensor.float().numpy())
        assert folder.file_bytes == sum(file.stat().st_size for file in folder.path.glob("*.safetensors"))


def test_raw_is_a_read_only_view_that_outlives_the_folder(tmp_path: Path) -> None:
    with SafetensorsFolder(write(tmp_path / "m")) as folder:
        raw, again = folder.raw("b"), folder.raw("b")
        assert raw.ctypes.data == again.ctypes.data
        with pytest.raises(ValueError, match="read-only"):
            raw[0] = 1
    np.testing.assert_array_equal(raw.view("<f4").reshape(5, 2), WHOLE["b"].numpy())


def test_parts_of_models_are_built_from_it(tmp_path: Path) -> None:
    with SafetensorsFolder(write(tmp_path / "m")) as folder:
        tensors = Tensors(folder)
        linear = tensors.linear(8, a=3)
        torch.testing.assert_close(linear.weight, WHOLE["a.weight"].float(), rtol=0, atol=0)
        torch.testing.assert_close(linear.bias, WHOLE["a.bias"].float(), rtol=0, atol=0)
        with pytest.raises(BadModel, match=r"m: the tensor b is 5 x 2 and should be 5 x 3\."):
            tensors.tensor("b", 5, 3)
        with pytest.raises(BadModel, match=r"the tensor c is missing"):
            tensors.tensor("c", 1)


def test_config_is_read_by_type(tmp_path: Path) -> None:
    config = {"text": {"width": 8, "eps": 1e-5, "kinds": ["a", "b"], "off": None}, "big": 10**400, "on": True}
    with SafetensorsFolder(write(tmp_path / "m", config=config)) as folder:
        assert folder.integer("text.width") == 8
        assert folder.number("text.eps") == 1e-5
        assert folder.list("text.kinds") == ("a", "b")
        assert folder.flag("on")
        assert folder.has("text.width")
        assert not folder.has("text.off")
        assert not folder.has("text.width.more")
        for ask, key in ((folder.integer, "text.eps"), (folder.number, "big"), (folder.text, "text")):
            with pytest.raises(BadModel, match=key):
                ask(key)
        with pytest.raises(BadModel, match=r"text\.off is missing in config\.json"):
            folder.integer("text.off")


@pytest.mark.parametrize(
    "shard", ["../one.safetensors", "/etc/passwd", "x/one.safetensors", "..\\x.safetensors", "one.bin", ""]
)
def test_an_index_that_points_outside_is_refused(tmp_path: Path, shard: str) -> None:
    with pytest.raises(BadModel, match="not one of this folder's"):
        SafetensorsFolder(write_sharded(tmp_path / "m", {"a.weight": shard}))


def test_a_tensor_that_is_not_where_the_index_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=r"the tensor b is missing in one\.safetensors"):
        SafetensorsFolder(write_sharded(tmp_path / "m", {"b": "one.safetensors"}))


@pytest.mark.parametrize("places", [[], {"a": 1}, "x"])
def test_an_index_of_another_form_is_refused(tmp_path: Path, places: object) -> None:
    with pytest.raises(BadModel, match="does not say which file"):
        SafetensorsFolder(write_sharded(tmp_path / "m", places))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_sharded(tmp_path / "m")
    (tmp_path / "m" / "two.safetensors").unlink()
    with pytest.raises(BadModel, match=r"two\.safetensors"):
        SafetensorsFolder(tmp_path / "m")


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 40, 200, -1])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path / "m") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadModel, match=r"model\.safetensors: it is not a safetensors file, is damaged"):
        SafetensorsFolder(tmp_path / "m")


@pytest.mark.parametrize(
    "header", [b"[]", b"{", b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}', b"\xff"]
)
def test_a_header_that_lies_is_refused(tmp_path: Path, header: bytes) -> None:
    path = write(tmp_path / "m") / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(36))
    with pytest.raises(BadModel, match=r"model\.safetensors"):
        SafetensorsFolder(tmp_path / "m")


def test_storage_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    tensors = {"w": torch.zeros(2, 2, dtype=torch.float8_e4m3fn)}
    with pytest.raises(BadModel, match="the tensor w uses F8_E4M3"):
        SafetensorsFolder(write(tmp_path / "m", tensors))


def test_an_empty_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="the tensor w has a dimension of 0"):
        SafetensorsFolder(write(tmp_path / "m", {"w": torch.zeros(0, 2)}))


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000, "\udcff"])
def test_a_config_that_is_not_an_object_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadModel, match=r"config\.json: it is not"):
        SafetensorsFolder(tmp_path / "m")


def test_what_is_not_a_model_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="There is no folder"):
        SafetensorsFolder(tmp_path / "gone")
    with pytest.raises(BadModel, match=r"There is no file .*config\.json"):
        SafetensorsFolder(tmp_path)
