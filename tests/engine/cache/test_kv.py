import torch

from engine.cache.kv import BLOCK, Kv, KvShape

SHAPE = KvShape(layers=3, heads=2, head_dim=4)


def fill(kv: Kv, count: int, seed: int = 0) -> torch.Tensor:
    """Append `count` random positions to each layer: (layers, 2, count, heads, head dim)."""
    new = torch.randn(
        SHAPE.layers, 2, count, SHAPE.heads, SHAPE.head_dim, generator=torch.Generator().manual_seed(seed)
    )
    for layer in range(SHAPE.layers):
        kv.append(layer, new[layer, 0], new[layer, 1])
    kv.advance(count)
    return new


def held(kv: Kv) -> torch.Tensor:
    layers = [torch.stack(kv.read(layer, 0, kv.length)) for layer in range(SHAPE.layers)]
    return torch.stack(layers).transpose(2, 3)


def test_what_is_appended_is_read_back_through_growth() -> None:
    kv = Kv(SHAPE, limit=5_000)
    parts = [fill(kv, count, seed=count) for count in (1, BLOCK - 1, 1, 700, 3)]
    assert kv.length == BLOCK + 704
    assert torch.equal(held(kv), torch.cat(parts, dim=2))


def test_a_middle_is_read_without_a_copy() -> None:
    kv = Kv(SHAPE, limit=100)
    new = fill(kv, 20)
    keys, values = kv.read(1, 5, 9)
    assert torch.equal(keys, new[1, 0, 5:9].transpose(0, 1))
    assert torch.equal(values, new[1, 1, 5:9].transpose(0, 1))
    assert keys.untyped_storage().data_ptr() == kv.read(1, 0, 20)[0].untyped_storage().data_ptr()


def test_room_grows_in_blocks_and_not_for_each_token() -> None:
    kv = Kv(SHAPE, limit=10_000)
    sizes = []
    for _ in range(4 * BLOCK):
        fill(kv, 1)
        sizes.append(kv.bytes)
    assert len(set(sizes)) <= 4
    assert sizes[-1] >= 4 * BLOCK * SHAPE.token_bytes
    assert sizes[-1] < 2.1 * 4 * BLOCK * SHAPE.token_bytes


def test_reserved_room_is_never_beyond_the_limit_and_is_used() -> None:
    kv = Kv(SHAPE, limit=BLOCK)
    kv.reserve(10 * BLOCK)
    assert kv.bytes == BLOCK * SHAPE.token_bytes
    fill(kv, BLOCK)
    assert kv.bytes == BLOCK * SHAPE.token_bytes


def test_truncated_positions_are_written_again() -> None:
    kv = Kv(SHAPE, limit=100)
    first = fill(kv, 10, seed=1)
    kv.truncate(4)
    kv.truncate(6)
    assert kv.length == 4
    second = fill(kv, 3, seed=2)
    assert torch.equal(held(kv), torch.cat((first[:, :, :4], second), dim=2))


def test_a_copy_is_its_own() -> None:
    kv = Kv(SHAPE, limit=100)
    first = fill(kv, 10, seed=1)
    other = kv.copy(6)
    kv.truncate(0)
    fill(kv, 8, seed=2)
    assert torch.equal(held(other), first[:, :, :6])
