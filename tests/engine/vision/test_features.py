"""The vision half against transformers; what it refuses, keeps and can be stopped in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import BadModel, BadRequest
from engine.vision.features import EncodingCancelled, FeatureCache, ImageFeatures, VisionEncoder
from engine.vision.patches import Grid
from tests.engine import muse
from tests.engine.vision.pictures import as_png, picture

CLOSE = 5e-4
WIDTH = muse.TEXT["hidden_size"]
F32 = gguf.GGMLQuantizationType.F32
Q8_0 = gguf.GGMLQuantizationType.Q8_0

# windows are 8 patches, 4 cells, wide
GRIDS = [(1, 1), (1, 7), (3, 2), (4, 4), (5, 9), (9, 5), (13, 20), (2, 64)]
LARGE = [(64, 64), (1, 4_096)]
SHAPES: dict[str, dict[str, Any]] = {
    "as published, but small": {},
    "one head, odd windows": {"num_attention_heads": 1, "pos_emb_height": 5, "pos_emb_width": 5},
    "cells of nine patches": {"merge_size": 3, "patch_size": 4, "num_hidden_layers": 5, "hidden_size": 48},
    "its own order of layers": {
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", "window_attention"],
    },
}


def run(encoder: VisionEncoder, patches: Tensor, grid: Grid) -> Tensor:
    steps = encoder._model.steps(patches, grid)
    with torch.inference_mode():
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value


def random_patches(grid: Grid, merge: int = 2, patch: int = 14) -> Tensor:
    torch.manual_seed(grid[0] * 5_000 + grid[1])
    return torch.rand(grid[0] * grid[1] * merge**2, 3 * patch**2) * 2 - 1


@torch.inference_mode()
def reference(made: Any, patches: Tensor, grid: Grid) -> Tensor:
    merge = made.config.vision_config.merge_size
    size = torch.tensor([[1, grid[0] * merge, grid[1] * merge]])
    return made.model.get_image_features(patches.repeat(1, 2), size).pooler_output[0]


@pytest.fixture(scope="module")
def made() -> Any:
    return muse.model(muse.config())


@pytest.fixture(scope="module")
def files(made: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    at = tmp_path_factory.mktemp("vision")
    return {"folder": muse.write_folder(at / "m", made), "mmproj": muse.write_mmproj(at / "m.gguf", made)}


@pytest.fixture(scope="module")
def encoder(files: dict[str, Path]) -> VisionEncoder:
    return VisionEncoder.open(files["mmproj"], WIDTH)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kind", ["folder", "mmproj"])
def test_features_are_those_of_transformers(kind: str, grid: Grid, made: Any, files: dict[str, Path]) -> None:
    patches = random_patches(grid)
    ours, theirs = run(VisionEncoder.open(files[kind], WIDTH), patches, grid), reference(made, patches, grid)
    assert ours.shape == (grid[0] * grid[1], WIDTH)
    assert (ours - theirs).abs().max() < CLOSE
    if len(ours) > 1:  # cells differ, or nothing would be proven
        assert theirs.std(0).mean() > 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes_too(shape: str, tmp_path: Path) -> None:
    made = muse.model(muse.config(vision=SHAPES[shape]))
    of = made.config.vision_config
    encoder = VisionEncoder.open(muse.write_folder(tmp_path / "m", made), WIDTH)
    for grid in ((3, 4), (11, 6)):
        patches = random_patches(grid, of.merge_size, of.patch_size)
        assert (run(encoder, patches, grid) - reference(made, patches, grid)).abs().max() < CLOSE


@pytest.mark.parametrize("grid", LARGE)
def test_4096_cells(grid: Grid, tmp_path: Path) -> None:
    made = muse.model(
        muse.config(vision={"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32})
    )
    patches = random_patches(grid)
    ours = run(VisionEncoder.open(muse.write_mmproj(tmp_path / "m.gguf", made), WIDTH), patches, grid)
    assert (ours - reference(made, patches, grid)).abs().max() < CLOSE


def test_sharded_and_in_bf16(made: Any, files: dict[str, Path], tmp_path: Path) -> None:
    halved = muse.model(muse.config()).bfloat16()
    folder = muse.write_folder(tmp_path / "m", halved, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    patches = random_patches((5, 9))
    ours = run(VisionEncoder.open(folder, WIDTH), patches, (5, 9))
    assert (ours - reference(halved.float(), patches, (5, 9))).abs().max() < CLOSE
    assert (ours - reference(made, patches, (5, 9))).abs().max() > 10 * CLOSE  # the rounding is in the file


def test_in_eight_bits(made: Any, tmp_path: Path) -> None:
    encoder = VisionEncoder.open(muse.write_mmproj(tmp_path / "m.gguf", made, storage=Q8_0), WIDTH)
    patches = random_patches((5, 9))
    apart = (run(encoder, patches, (5, 9)) - reference(made, patches, (5, 9))).abs()
    assert 1e-5 < apart.mean() < 0.03


def test_two_readings_of_the_position_table(made: Any, files: dict[str, Path]) -> None:
    """They agree on square pictures within the table and nowhere else."""
    plain = VisionEncoder.open(files["mmproj"], WIDTH)
    natural = VisionEncoder.open(files["mmproj"], WIDTH, lookup="natural")
    for grid, is_same in (((3, 3), True), ((4, 4), True), ((3, 4), False), ((2, 9), False), ((6, 6), False)):
        patches = random_patches(grid)
        apart = (run(plain, patches, grid) - run(natural, patches, grid)).abs().max()
        assert apart < 1e-5 if is_same else apart > 20 * CLOSE


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (8, 3), (5, 20), (16, 16)])
def test_the_natural_reading_is_torchs_own_stretching(rows: int, columns: int) -> None:
    from engine.layers.patch_order import PositionTable, patch_order

    table = torch.randn(8 * 8, 6)
    order = patch_order(rows, columns, 2, 8)
    ours = PositionTable(table, 8, "natural").at(order, slice(None))[order.raster.argsort()]
    square = table.view(1, 8, 8, 6).permute(0, 3, 1, 2)
    theirs = torch.nn.functional.interpolate(square, (rows * 2, columns * 2), mode="bilinear")
    torch.testing.assert_close(ours, theirs[0].permute(1, 2, 0).reshape(-1, 6), rtol=0, atol=1e-5)


def test_a_picture_from_file_to_features(made: Any, encoder: VisionEncoder) -> None:
    data = as_png(picture(300, 200))
    grid = encoder.cells(300, 200)
    assert grid == encoder.measure(data) == (7, 11)
    made_of = encoder.encode(data)
    assert made_of.grid == grid
    patches = encoder._model.config.cutting.cut(picture(300, 200), grid)
    assert (made_of.features - reference(made, patches, grid)).abs().max() < CLOSE


@pytest.mark.parametrize("size", [(1, 1), (20_000, 1), (1, 20_000)])
def test_the_oddest_pictures_are_encoded(size: tuple[int, int], encoder: VisionEncoder) -> None:
    if max(size) > 1:
        size = tuple(min(side, 3_000) for side in size)
    features = encoder.encode(as_png(picture(*size))).features
    assert torch.isfinite(features).all()


def test_a_picture_is_encoded_once(encoder: VisionEncoder) -> None:
    data = as_png(picture(90, 61))
    first = encoder.encode(data)
    assert encoder.encode(bytes(data)) is first
    assert encoder.encode(as_png(picture(61, 90))) is not first
    assert encoder.cache_bytes >= first.features.nbytes
    with pytest.raises(StopIteration):
        next(encoder.steps(data))  # nothing to do


def test_the_cache_lets_go_of_what_was_not_used_for_longest() -> None:
    def features(rows: int) -> ImageFeatures:
        return ImageFeatures((rows, 1), torch.zeros(rows, 25))  # 100 bytes a row

    cache = FeatureCache(1_000)
    for name in b"abc":
        cache.keep(bytes([name]), features(3))
    assert cache.find(b"a") is not None
    cache.keep(b"d", features(4))
    assert cache.bytes == 1_000
    assert [cache.find(name) is not None for name in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    cache.keep(b"e", features(11))  # larger than all that may be kept
    assert cache.find(b"e") is None
    assert cache.bytes == 1_000


def test_cancelling_is_noticed_between_steps(files: dict[str, Path]) -> None:
    encoder = VisionEncoder.open(files["mmproj"], WIDTH)
    data, asked = as_png(picture(200, 200)), 0

    def after(count: int) -> Callable[[], bool]:
        def is_cancelled() -> bool:
            nonlocal asked
            asked += 1
            return asked > count

        return is_cancelled

    encoder.encode(data, after(10**6))
    whole, asked = asked, 0
    assert whole > 6 * 3  # more than thrice a layer
    fresh = VisionEncoder.open(files["mmproj"], WIDTH)
    with pytest.raises(EncodingCancelled):
        fresh.encode(data, after(whole // 2))
    assert asked == whole // 2 + 1
    assert fresh.cache_bytes == 0


def test_between_steps_torch_is_as_it_was(encoder: VisionEncoder) -> None:
    for _ in encoder.steps(as_png(picture(33, 99))):
        assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("data", [b"", b"not a picture", as_png(picture(9, 9))[:60]])
def test_what_is_no_picture_is_refused(data: bytes, encoder: VisionEncoder) -> None:
    with pytest.raises(BadRequest):
        encoder.encode(data)


@pytest.mark.parametrize(("kind", "name"), [("folder", "model.vision_projection"), ("mmproj", "mm.2")])
def test_another_models_vision_part_is_refused(kind: str, name: str, files: dict[str, Path]) -> None:
    with pytest.raises(BadModel, match=rf"tensor {name}\.weight makes features 48 wide, .* 6,656 wide"):
        VisionEncoder.open(files[kind], 6_656)


def broken(made: Any, path: Path, change: Callable[[dict[str, np.ndarray]], Any], **options: Any) -> Path:
    tensors = muse.vision_tensors(made)
    change(tensors)
    return muse.write_mmproj(path, made, tensors=tensors, **options)


def shorten(name: str) -> Callable[[dict[str, np.ndarray]], Any]:
    return lambda tensors: tensors.update({name: tensors[name][:-1].copy()})


REFUSED = {
    "v.blk.2.attn_k.bias is missing": lambda tensors: tensors.pop("v.blk.2.attn_k.bias"),
    "v.post_ln.weight is missing": lambda tensors: tensors.pop("v.post_ln.weight"),
    "mm.1.weight is missing": lambda tensors: tensors.pop("mm.1.weight"),
    "v.blk.0.ffn_up.weight is 95 x 64 and should be 96 x 64": shorten("v.blk.0.ffn_up.weight"),
    "v.pre_ln.bias is 63 and should be 64": shorten("v.pre_ln.bias"),
    "v.position_embd.weight holds 63 positions": shorten("v.position_embd.weight"),
    "mm.1.weight is 39 x 40 and should be 40 x 40": shorten("mm.1.weight"),
    "v.blk.5.ln2.weight holds values that are not numbers": lambda tensors: tensors[
        "v.blk.5.ln2.weight"
    ].__setitem__(3, np.nan),
    "it holds the tensor v.blk.6.ln1.weight": lambda tensors: tensors.update(
        {"v.blk.6.ln1.weight": np.ones(64, np.float32)}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_broken_file_is_refused_by_the_tensors_name(message: str, made: Any, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=message):
        VisionEncoder.open(broken(made, tmp_path / "m.gguf", REFUSED[message]), WIDTH)


def test_a_scale_that_is_not_a_number_is_refused(made: Any, tmp_path: Path) -> None:
    path = muse.write_mmproj(tmp_path / "m.gguf", made, storage=Q8_0)
    reader = gguf.GGUFReader(path, "r+")
    tensor = next(tensor for tensor in reader.tensors if tensor.name == "v.blk.3.attn_v.weight")
    tensor.data.reshape(-1, 34)[7, :2] = [0, 0x7E]
    reader.data.flush()
    with pytest.raises(BadModel, match=r"v\.blk\.3\.attn_v\.weight holds values that are not numbers"):
        VisionEncoder.open(path, WIDTH)


def test_other_files_are_refused(made: Any, files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="a vision part for qwen2vl"):
        VisionEncoder.open(muse.write_mmproj(tmp_path / "m.gguf", made, projector="qwen2vl"), WIDTH)
    writer = gguf.GGUFWriter(tmp_path / "llama.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(BadModel, match="not the vision part"):
        VisionEncoder.open(tmp_path / "llama.gguf", WIDTH)
    with pytest.raises(BadModel, match="There is no file"):
        VisionEncoder.open(tmp_path / "gone.gguf", WIDTH)


CONFIGS = {
    '"model_type": "muse_glimmer"': ('"model_type": "llama"', "of the type llama"),
    '"hidden_act": "gelu"': ('"hidden_act": "relu"', "vision_config.hidden_act is relu"),
    '"pos_emb_width": 8': ('"pos_emb_width": 9', "the position table is not square"),
    '"window_attention"': ('"some_attention"', "vision_config.layer_types does not say"),
    '"patch_temporal": 2': ('"patch_temporal": 0', "vision_config.patch_temporal can't be 0"),
    '"patch_size": 14': ('"size": 14', "vision_config.patch_size is missing"),
}


@pytest.mark.parametrize("old", CONFIGS)
def test_a_folder_that_says_something_else_is_refused(
    old: str, files: dict[str, Path], tmp_path: Path
) -> None:
    new, message = CONFIGS[old]
    text = (files["folder"] / "config.json").read_text()
    assert old in text
    (tmp_path / "config.json").write_text(text.replace(old, new))
    (tmp_path / "model.safetensors").symlink_to(files["folder"] / "model.safetensors")
    with pytest.raises(BadModel, match=message):
        VisionEncoder.open(tmp_path, WIDTH)


MEASURE = """
import resource, sys
from pathlib import Path
import torch
from engine.vision.features import VisionEncoder
torch.set_num_threads(1)
encoder = VisionEncoder.open(Path(sys.argv[1]), {width})
encoder.encode(Path(sys.argv[3]).read_bytes())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert encoder.encode(Path(sys.argv[2]).read_bytes()).grid == (64, 64)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in other units elsewhere")
def test_a_picture_of_16384_patches_takes_no_room_for_all_against_all(tmp_path: Path) -> None:
    """A mask of every patch against every other would take 1 GB; 80 MB were seen."""
    made = muse.model(muse.config(vision={"num_hidden_layers": 2}))
    path, large, small = muse.write_mmproj(tmp_path / "m.gguf", made), tmp_path / "l.png", tmp_path / "s.png"
    large.write_bytes(as_png(picture(1_792, 1_792)))
    small.write_bytes(as_png(picture(60, 60)))
    script = MEASURE.format(width=WIDTH)
    out = subprocess.run(
        [sys.executable, "-c", script, path, large, small], capture_output=True, text=True, check=True
    )
    assert int(out.stdout) < 250 << 20
