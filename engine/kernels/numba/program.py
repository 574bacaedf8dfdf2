"""Programs: lists of operations on rows, each done by several threads in pieces that whoever is free takes.

An operation is a row of `WORDS` whole numbers; what changes from run to run stands in a frame, as addresses.
Nothing is allocated here but small scratch. The thread that asks goes from operation to operation and does
small ones by itself. For others it posts a ticket, which says how many pieces there are and which is next, in
one number, so that a piece is taken in one step and a thread that comes late takes nothing from an operation
that it doesn't know.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import njit, types

from engine.kernels.numba import attention, rows
from engine.kernels.numba.atomics import add, get, pause, put
from engine.kernels.numba.maths import bits_as_float, by_gelu_tanh, by_sigmoid, by_silu
from engine.kernels.numba.memory import OPTIONS, whole
from engine.kernels.numba.products import multiply_tiles, round_rows
from engine.kernels.numba.tiles import GROUP

WORDS = 32  # of an operation

# Operations, and where in one what stands. Numbers with a point stand as a double's bits.
NORM, ROUND, MULTIPLY, HEADS, ATTEND, JOIN, GATE = range(7)
KIND, COLUMNS, MASK, STRIDE = range(4)  # mask: a bit for each way to round; stride: bytes between rows
# NORM: what is pending joins the rows, if it is to after a norm of its own; then they are normalised.
IS_PENDING, END, END_EPS, LAYER_END, WEIGHT, EPS = range(4, 10)
# ROUND: rows at `SOURCE`, a place of the frame; an `OPENING` (bytes into the wide rows; -1: none) gates them.
SOURCE, OPENING, WIDE_STRIDE = range(4, 7)
# MULTIPLY: to `OUT`, a frame's place; of each part of the matrix: layout, rounding, address, tiles.
OUT, PARTS, PART = 4, 5, 6
MOST_PARTS = (WORDS - PART) // 4
# HEADS, ATTEND, JOIN
COUNT, SHARED, DIM, QUERY_NORM, QUERY_EPS, KEY_NORM, KEY_EPS, SCALE, TURN, PARTNERS, LAYER, WINDOW = range(
    4, 16
)
# GATE: the first `COLUMNS` of a wide row open the others, by a function.
BY = 4
SILU, GELU_TANH = range(2)

# A frame. Addresses of rows but for the first three.
ROWS, START, STORAGE, X, NORMED, WIDE, FOUND, PENDING, RECORDS, LANES, TURNS, KEPT, ROUNDED, SCALES = (
    *range(13),
    15,
)
FRAME = 18  # three ways to round have each their rounded rows and scales
LANE = 4  # of each layer: addresses of keys and values, bytes of a head, the first position

RECORD_BYTES = 32 << 20  # at most, of what single chunks made
FEW = 8  # rows, up to which chunks are looked at by threads of their own
BLOCK = 32  # rows whose queries look together otherwise
INLINE = 2 * GROUP  # rows, up to which a thread does what is done to each by itself

TICKET, DONE, CLOSED, RESTING, IS_RUNNING, FIELDS = 0, 64, 128, 192, 256, 320  # bytes: each on its own line
BYTES = FIELDS + 16
PIECES = 4  # for each thread
SPINS, YIELDS = 2_000, 40  # before a thread rests

if sys.platform == "win32":
    _give_way = types.ExternalFunction("SwitchToThread", types.int32())
else:
    _give_way = types.ExternalFunction("sched_yield", types.int32())


@njit(**OPTIONS)
def _round(op: np.ndarray, frame: np.ndarray, source: int, stride: int, first: int, count: int) -> None:
    for rounding in range(3):
        if (op[MASK] >> rounding) & 1:
            x, s = frame[ROUNDED + rounding], frame[SCALES + rounding]
            round_rows(rounding, source, stride, first, count, op[COLUMNS], x, s)


@njit(**OPTIONS)
def _norm_group(op: np.ndarray, frame: np.ndarray, first: int, count: int) -> None:
    width = op[COLUMNS]
    for row in range(first, first + count):
        x, pending = frame[X] + 4 * width * row, frame[PENDING] + 4 * width * row
        if op[IS_PENDING]:
            if op[END]:
                rows.norm(pending, width, op[END], bits_as_float(op[END_EPS]), pending)
            rows.add(x, pending, width)
        if op[LAYER_END] >= 0:
            kept = whole(frame[KEPT] + 8 * op[LAYER_END], 1)[0]
            if kept:
                rows.copy(x, width, kept + 4 * width * row)
        rows.norm(x, width, op[WEIGHT], bits_as_float(op[EPS]), frame[NORMED] + 4 * width * row)
    _round(op, frame, frame[NORMED], 4 * width, first, count)


@njit(**OPTIONS)
def _round_group(op: np.ndarray, frame: np.ndarray, first: int, count: int) -> None:
    source, stride = frame[op[SOURCE]], op[STRIDE]
    if op[OPENING] >= 0:
        for row in range(first, first + count):
            found = source + stride * row
            gate = frame[WIDE] + op[WIDE_STRIDE] * row + op[OPENING]
            by_sigmoid(gate, found, found, op[COLUMNS] // 8)
    _round(op, frame, source, stride, first, count)


@njit(**OPTIONS)
def _gate_group(op: np.ndarray, frame: np.ndarray, first: int, count: int) -> None:
    columns = op[COLUMNS]
    for row in range(first, first + count):
        at = frame[WIDE] + op[STRIDE] * row
        if op[BY] == SILU:
            by_silu(at, at + 4 * columns, at, columns // 8)
        else:
            by_gelu_tanh(at, at + 4 * columns, at, columns // 8)
    _round(op, frame, frame[WIDE], op[STRIDE], first, count)


@njit(**OPTIONS)
def _heads_group(op: np.ndarray, frame: np.ndarray, first: int, count: int) -> None:
    heads, shared, dim, storage = op[COUNT], op[SHARED], op[DIM], frame[STORAGE]
    lane = whole(frame[LANES] + 8 * LANE * op[LAYER], LANE)
    size = dim * (2 if storage == 1 else 4)
    scratch = np.empty(dim, np.float32)
    partners = whole(op[PARTNERS], dim)
    for row in range(first, first + count):
        at = frame[WIDE] + op[STRIDE] * row
        for head in range(heads + shared):
            here = at + 4 * dim * head
            if op[QUERY_NORM]:
                if head < heads:
                    rows.norm(here, dim, op[QUERY_NORM], bits_as_float(op[QUERY_EPS]), here)
                else:
                    rows.norm(here, dim, op[KEY_NORM], bits_as_float(op[KEY_EPS]), here)
            if op[TURN] >= 0:
                turn = whole(frame[TURNS] + 16 * op[TURN], 2)
                cos, sin = turn[0] + 4 * dim * row, turn[1] + 4 * dim * row
                rows.turn(here, dim, cos, sin, partners, scratch.ctypes.data)
            if head < heads:
                rows.scale(here, dim, bits_as_float(op[SCALE]))
        place = (frame[START] + row - lane[3]) * size
        for head in range(shared):
            key = at + 4 * dim * (heads + head)
            rows.keep(storage, key, dim, lane[0] + lane[2] * head + place)
            rows.keep(storage, key + 4 * dim * shared, dim, lane[1] + lane[2] * head + place)


@njit(**OPTIONS)
def _first_chunk(op: np.ndarray, position: int) -> int:
    """The first that a query at this position sees."""
    return max(0, position - op[WINDOW] + 1) // attention.CHUNK if op[WINDOW] > 0 else 0


@njit(**OPTIONS)
def _chunks(op: np.ndarray, frame: np.ndarray) -> int:
    """How many chunks any of the queries sees."""
    last = (frame[START] + frame[ROWS] - 1) // attention.CHUNK
    return last - _first_chunk(op, frame[START]) + 1


@njit(**OPTIONS)
def _record(op: np.ndarray) -> int:
    """Bytes of a record."""
    return 4 * (attention.HEAD + op[DIM])


@njit(**OPTIONS)
def _is_apart(op: np.ndarray, frame: np.ndarray) -> bool:
    """Whether each chunk is looked at by itself, and joined later."""
    size = frame[ROWS] * op[COUNT] * _chunks(op, frame) * _record(op)
    return frame[ROWS] <= FEW and size <= RECORD_BYTES


@njit(**OPTIONS)
def _look(
    op: np.ndarray,
    frame: np.ndarray,
    head: int,
    chunk: int,
    first: int,
    count: int,
    scores: int,
    out: int,
    stride: int,
) -> None:
    """One to three queries of those who share a head, by their number, look at a chunk."""
    group, dim, storage = op[COUNT] // op[SHARED], op[DIM], frame[STORAGE]
    lane = whole(frame[LANES] + 8 * LANE * op[LAYER], LANE)
    base = frame[WIDE] + 4 * dim * group * head
    second, third = min(first + 1, first + count - 1), first + count - 1
    q0 = base + op[STRIDE] * (first // group) + 4 * dim * (first % group)
    q1 = base + op[STRIDE] * (second // group) + 4 * dim * (second % group)
    q2 = base + op[STRIDE] * (third // group) + 4 * dim * (third % group)
    start = frame[START]
    attention.look_at_chunk(
        storage,
        count,
        q0,
        q1,
        q2,
        start + first // group,
        start + second // group,
        start + third // group,
        op[WINDOW],
        chunk,
        lane[0] + lane[2] * head,
        lane[1] + lane[2] * head,
        dim * (2 if storage == 1 else 4),
        lane[3],
        dim,
        scores,
        out,
        stride,
    )


@njit(**OPTIONS)
def _look_apart(op: np.ndarray, frame: np.ndarray, piece: int) -> None:
    """All queries of one head, at one chunk. Records lie as [shared head][query][chunk]."""
    chunks, queries, record = _chunks(op, frame), frame[ROWS] * (op[COUNT] // op[SHARED]), _record(op)
    head, at = piece // chunks, piece % chunks
    chunk = _first_chunk(op, frame[START]) + at
    scores = np.empty(attention.MOST * attention.ROOM, np.float32)
    for first in range(0, queries, attention.MOST):
        out = frame[RECORDS] + ((head * queries + first) * chunks + at) * record
        count = min(attention.MOST, queries - first)
        _look(op, frame, head, chunk, first, count, scores.ctypes.data, out, chunks * record)


@njit(**OPTIONS)
def _found(op: np.ndarray, frame: np.ndarray, head: int, query: int) -> int:
    """Where a query puts what it finds."""
    group = op[COUNT] // op[SHARED]
    return frame[FOUND] + 4 * op[DIM] * (op[COUNT] * (query // group) + group * head + query % group)


@njit(**OPTIONS)
def _join(op: np.ndarray, frame: np.ndarray, piece: int) -> None:
    """One query's records, chunk after chunk."""
    chunks, queries, record = _chunks(op, frame), frame[ROWS] * (op[COUNT] // op[SHARED]), _record(op)
    first = frame[RECORDS] + piece * chunks * record
    for chunk in range(1, chunks):
        attention.join(first, first + chunk * record, op[DIM])
    attention.finish(first, op[DIM], _found(op, frame, piece // queries, piece % queries))


@njit(**OPTIONS)
def _look_together(op: np.ndarray, frame: np.ndarray, piece: int) -> None:
    """Queries of one head in a block of rows, at one chunk after the other."""
    group, record, dim = op[COUNT] // op[SHARED], _record(op), op[DIM]
    blocks = (frame[ROWS] + BLOCK - 1) // BLOCK
    head, block = piece % op[SHARED], blocks - 1 - piece // op[SHARED]  # those that see most come first
    begin, end = block * BLOCK, min(frame[ROWS], (block + 1) * BLOCK)
    queries = (end - begin) * group
    totals = np.empty((queries, attention.HEAD + dim), np.float32)
    totals[:, :2] = 0.0
    made = np.empty((attention.MOST, attention.HEAD + dim), np.float32)
    scores = np.empty(attention.MOST * attention.ROOM, np.float32)
    oldest = _first_chunk(op, frame[START] + begin)
    for chunk in range(oldest, (frame[START] + end - 1) // attention.CHUNK + 1):
        for first in range(0, queries, attention.MOST):
            count = min(attention.MOST, queries - first)
            query = begin * group + first
            _look(op, frame, head, chunk, query, count, scores.ctypes.data, made.ctypes.data, record)
            for row in range(count):
                total = totals.ctypes.data + (first + row) * record
                attention.join(total, made.ctypes.data + row * record, dim)
    for query in range(queries):
        total = totals.ctypes.data + query * record
        attention.finish(total, dim, _found(op, frame, head, begin * group + query))


@njit(**OPTIONS)
def _multiply(op: np.ndarray, frame: np.ndarray, first: int, end: int) -> None:
    """These tiles, counted through all parts of the matrix."""
    out = frame[op[OUT]]
    for part in range(op[PARTS]):
        at = PART + 4 * part
        layout, rounding, weights, tiles = op[at], op[at + 1], op[at + 2], op[at + 3]
        if first < tiles and end > 0:
            multiply_tiles(
                layout,
                rounding,
                weights,
                max(first, 0),
                min(end, tiles),
                op[COLUMNS],
                frame[ROWS],
                frame[ROUNDED + rounding],
                frame[SCALES + rounding],
                out,
                op[STRIDE],
            )
        out, first, end = out + 32 * tiles, first - tiles, end - tiles


@njit(**OPTIONS)
def _tiles(op: np.ndarray) -> int:
    count = 0
    for part in range(op[PARTS]):
        count += op[PART + 4 * part + 3]
    return count


@njit(**OPTIONS)
def _pieces(op: np.ndarray, frame: np.ndarray, threads: int) -> int:
    """How many there are of an operation."""
    kind, count = op[KIND], frame[ROWS]
    if kind == MULTIPLY:
        return min(_tiles(op), PIECES * threads)
    if kind == ATTEND:
        if _is_apart(op, frame):
            return op[SHARED] * _chunks(op, frame)
        return op[SHARED] * ((count + BLOCK - 1) // BLOCK)
    if kind == JOIN:
        return count * op[COUNT] if _is_apart(op, frame) else 0
    return (count + GROUP - 1) // GROUP


@njit(**OPTIONS)
def _is_small(op: np.ndarray, frame: np.ndarray) -> bool:
    """Whether asking others takes longer than doing it."""
    kind, count = op[KIND], frame[ROWS]
    if kind in (MULTIPLY, ATTEND):
        return False
    if kind == JOIN:
        return count * op[COUNT] * _chunks(op, frame) * op[DIM] < 1 << 15
    return count <= INLINE


@njit(**OPTIONS)
def _perform(op: np.ndarray, frame: np.ndarray, piece: int, pieces: int) -> None:
    kind = op[KIND]
    if kind == MULTIPLY:
        tiles = _tiles(op)
        _multiply(op, frame, tiles * piece // pieces, tiles * (piece + 1) // pieces)
    elif kind == ATTEND:
        if _is_apart(op, frame):
            _look_apart(op, frame, piece)
        else:
            _look_together(op, frame, piece)
    elif kind == JOIN:
        _join(op, frame, piece)
    else:
        first = piece * GROUP
        count = min(GROUP, frame[ROWS] - first)
        if kind == NORM:
            _norm_group(op, frame, first, count)
        elif kind == HEADS:
            _heads_group(op, frame, first, count)
        elif kind == GATE:
            _gate_group(op, frame, first, count)
        else:
            _round_group(op, frame, first, count)


@njit(**OPTIONS)
def _help(job: int) -> int:
    """Take pieces while there are any; how many were done."""
    done = 0
    while True:
        ticket = get(job + TICKET)
        pieces = (ticket >> 20) & 0xFFFFF
        if (ticket & 0xFFFFF) >= pieces:
            return done
        ticket = add(job + TICKET, 1)
        piece, pieces = ticket & 0xFFFFF, (ticket >> 20) & 0xFFFFF
        if piece >= pieces:
            return done
        _perform(whole(get(job + FIELDS), WORDS), whole(get(job + FIELDS + 8), FRAME), piece, pieces)
        add(job + DONE, 1)
        done += 1


@njit(**OPTIONS)
def serve(job: int) -> None:
    """What a helping thread does, until no program runs and for a while there was nothing to do."""
    idle = 0
    while get(job + CLOSED) == 0 and (idle < SPINS + YIELDS or get(job + IS_RUNNING)):
        if _help(job) > 0:
            idle = 0
        elif idle < SPINS:
            pause()
            idle += 1
        else:
            _give_way()
            idle += 1


@njit(**OPTIONS)
def _all(job: int, op: int, frame: int, pieces: int) -> None:
    """Offer an operation, help, and wait for its last piece."""
    put(job + FIELDS, op)
    put(job + FIELDS + 8, frame)
    put(job + DONE, 0)
    number = (get(job + TICKET) >> 40) + 1
    put(job + TICKET, ((number & 0x3FFFFF) << 40) | (pieces << 20))
    _help(job)
    spins = 0
    while get(job + DONE) < pieces:
        pause()
        spins += 1
        if spins > SPINS:
            _give_way()


@njit(**OPTIONS)
def run(job: int, program: int, count: int, frame: int, threads: int) -> None:
    """`count` operations, one after the other."""
    values = whole(frame, FRAME)
    for number in range(count):
        address = program + 8 * WORDS * number
        op = whole(address, WORDS)
        pieces = _pieces(op, values, threads)
        if threads == 1 or _is_small(op, values):
            for piece in range(pieces):
                _perform(op, values, piece, pieces)
        elif pieces > 0:
            _all(job, address, frame, pieces)
    put(job + IS_RUNNING, 0)


def room(size: int) -> np.ndarray:
    """Zeroed bytes, from a multiple of 64 on."""
    made = np.zeros(size + 64, np.uint8)
    start = -made.ctypes.data % 64
    return made[start : start + size]
