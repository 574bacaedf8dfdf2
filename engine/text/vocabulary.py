"""A model file's vocabulary: what each token is, which are control tokens, which end a turn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from engine.api import BadModel
from engine.text.markers import Markers
from engine.weights.gguf import GgufFile

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # tokenizer.ggml.token_type

# Names that end a turn in the model families that use them, whatever else their files say.
END_NAMES = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
    "[e~[", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
)  # fmt: skip
# Names that control code completion; files often fail to mark them.
FILL_NAMES = (
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
    "<|prefix|>", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
    "<|code_suffix|>", "<|suffix|>", "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
    "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>",
)  # fmt: skip
# Part of what a harmony model says, although files mark them as control tokens.
SPOKEN_NAMES = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
# Together they are a vocabulary of messages: `<|eom|>` ends one, `<|eot|>` the turn, and none is ever spoken.
MESSAGE_NAMES = ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>")
MESSAGE_ENDS = ("<|end_of_text|>", "<|eot|>")


class Vocabulary:
    """Token texts as the file spells them, with kinds and scores."""

    def __init__(self, file: GgufFile) -> None:
        self.texts = file.strings("tokenizer.ggml.tokens").to_list()
        self.ids: Mapping[str, int] = _numbered(self.texts)
        if "" in self.ids:
            self.texts = [text or f"[EMPTY_{token}]" for token, text in enumerate(self.texts)]
            self.ids = _numbered(self.texts)
        if not self.texts or len(self.ids) != len(self.texts):
            raise file.refuse("its vocabulary is empty or holds a token twice")
        self._name = file.path.name
        kinds = self._array(file, "tokenizer.ggml.token_type", np.int32)
        self.kinds = np.full(len(self.texts), NORMAL, np.int32) if kinds is None else kinds.astype(np.int32)
        self.scores = self._array(file, "tokenizer.ggml.scores", np.float32)
        self.bos_id, self.eos_id = self._token(file, "bos"), self._token(file, "eos")
        self.eos_ids = self._find_ends(file)
        self._hidden = frozenset(self._of_kind(CONTROL, UNKNOWN)) | self.eos_ids
        self._promote()

    def refuse(self, problem: str) -> BadModel:
        """The error that names the file."""
        return BadModel(f"{self._name}: {problem}.")

    def is_hidden(self, token: int) -> bool:
        """Whether a token is control: no part of the text that a person reads."""
        return token in self._hidden

    @cached_property
    def control(self) -> Markers:
        """Tokens that plain text must never become."""
        return Markers({self.texts[token]: token for token in self._of_kind(CONTROL, UNKNOWN)})

    @cached_property
    def user_defined(self) -> Markers:
        """Tokens that are cut out of plain text too."""
        return Markers({self.texts[token]: token for token in self._of_kind(USER_DEFINED)})

    @cached_property
    def all_markers(self) -> Markers:
        """Both."""
        return Markers({**self.control.ids, **self.user_defined.ids})

    def spoken(self) -> dict[str, int]:
        """Tokens that plain text may be made of."""
        spoken = dict(self.ids)
        for token in self._of_kind(CONTROL, UNKNOWN, BYTE):
            del spoken[self.texts[token]]
        return spoken

    def _of_kind(self, *kinds: int) -> list[int]:
        found: list[int] = np.flatnonzero(np.isin(self.kinds, kinds)).tolist()
        return found

    def _array(self, file: GgufFile, key: str, kind: type[np.generic]) -> np.ndarray | None:
        if not file.has(key):
            return None
        values = file.numbers(key)
        if len(values) < len(self.texts):
            raise self.refuse(f"{key} has {len(values):,} entries for {len(self.texts):,} tokens")
        return values[: len(self.texts)].astype(kind)

    def _token(self, file: GgufFile, role: str) -> int | None:
        key = f"tokenizer.ggml.{role}_token_id"
        token = file.integer(key) if file.has(key) else -1
        return token if 0 <= token < len(self.texts) else None

    @property
    def _has_messages(self) -> bool:
        return all(name in self.ids for name in MESSAGE_NAMES)

    def _find_ends(self, file: GgufFile) -> frozenset[int]:
        if self._has_messages:
            return frozenset(self.ids[name] for name in MESSAGE_ENDS if name in self.ids)
        declared = {self._token(file, role) for role in ("eos", "eot", "eom")} - {None}
        named = {self.ids[name] for name in END_NAMES if name in self.ids}
        strike = self.ids.get("</s>")
        if strike is not None and self.kinds[strike] != CONTROL:
            named.discard(strike)  # an HTML tag in this vocabulary
        ends = declared | named
        if {"<|return|>", "<|call|>"} <= self.ids.keys() or {"<|calls|>", "<|flush|>"} <= self.ids.keys():
            ends.discard(self.ids.get("<|end|>"))  # harmony: ends a message, not the turn
        return frozenset(token for token in ends if token is not None)

    def _promote(self) -> None:
        """Correct the kinds of well-known tokens, as llama.cpp does."""
        for name in (*END_NAMES, *FILL_NAMES):
            if name in self.ids:
                self.kinds[self.ids[name]] = CONTROL
        if self._has_messages:
            for name in MESSAGE_NAMES:
                self.kinds[self.ids[name]] = CONTROL
            return
        spoken = [*SPOKEN_NAMES]
        if "<|end|>" in self.ids and self.ids["<|end|>"] not in self.eos_ids:
            spoken.append("<|end|>")
        for name in spoken:
            if name in self.ids:
                self.kinds[self.ids[name]] = USER_DEFINED


def _numbered(texts: list[str]) -> dict[str, int]:
    return dict(zip(texts, range(len(texts)), strict=True))
