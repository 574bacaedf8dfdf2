"""How byte-level BPE vocabularies cut a text into words, by the name that files give to the way.

The patterns are facts of the models; where an original and llama.cpp differ, llama.cpp is followed.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
LLAMA3 = rf"{CONTRACTIONS}|{WORD}|\p{{N}}{{1,3}}|{SYMBOLS}|{SPACES}"
QWEN2 = rf"{CONTRACTIONS}|{WORD}|\p{{N}}|{SYMBOLS}|{SPACES}"
QWEN35 = (
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}"
)
# Letters in which case matters only for ASCII.
UPPER, LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
LEAD = r"[^\r\n\p{L}\p{N}]?"
SLASHED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
TEKKEN = rf"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*|\p{{N}}|{SLASHED}|{SPACES}"
GPT4O = (
    rf"{LEAD}{UPPER}*{LOWER}+{CONTRACTIONS}?|{LEAD}{UPPER}+{LOWER}*{CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{SLASHED}|{SPACES}"
)
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}"
)
EAST_ASIAN = r"(?:(?!\s)[一-龥\x{0800}-一가-\x{d7ff}])+"
DIGIT = r"\p{N}"


@dataclass(frozen=True, slots=True)
class Pretokens:
    """A way to cut: every pattern cuts the pieces that the one before left."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word that is a token is taken whole, whatever the merges say
    add_bos: bool = False  # unless the file says otherwise


_LLAMA3 = Pretokens((LLAMA3,))
_WHOLE_LLAMA3 = Pretokens((LLAMA3,), whole_words=True, add_bos=True)
_GPT2 = Pretokens((GPT2,))
_DIGITS = Pretokens((DIGIT, GPT2))
_QWEN2 = Pretokens((QWEN2,))

PRETOKENS: dict[str, Pretokens] = {
    "default": Pretokens((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "falcon": Pretokens((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    "gpt-2": _GPT2, "phi-2": _GPT2, "mpt": _GPT2, "olmo": _GPT2, "exaone4": _GPT2, "trillion": _GPT2,
    "granite-docling": _GPT2, "gigachat": _GPT2, "a.x-4.0": _GPT2, "mellum": _GPT2,
    "smollm": _DIGITS, "starcoder": _DIGITS, "refact": _DIGITS, "command-r": _DIGITS, "codeshell": _DIGITS,
    "exaone": _DIGITS, "minerva-7b": _DIGITS, "mellum2": _DIGITS,
    "llama3": _WHOLE_LLAMA3, "llama-v3": _WHOLE_LLAMA3, "llama-bpe": _WHOLE_LLAMA3, "falcon3": _WHOLE_LLAMA3,
    "falcon-h1": _WHOLE_LLAMA3, "pixtral": _WHOLE_LLAMA3, "lfm2": _WHOLE_LLAMA3, "midm-2.0": _WHOLE_LLAMA3,
    "dbrx": _LLAMA3, "smaug-bpe": _LLAMA3, "chatglm-bpe": _LLAMA3,
    "glm4": Pretokens((LLAMA3,), whole_words=True),
    "qwen2": _QWEN2, "deepseek-r1-qwen": _QWEN2, "stablelm2": _QWEN2, "megrez": _QWEN2, "hunyuan": _QWEN2,
    "qwen35": Pretokens((QWEN35,)),
    "tekken": Pretokens((TEKKEN,), whole_words=True, add_bos=True),
    "gpt-4o": Pretokens((GPT4O,)), "llama4": Pretokens((GPT4O,)),
    "deepseek-coder": Pretokens(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, DIGIT)),
    "deepseek-v3": Pretokens((r"\p{N}{1,3}", r"[一-龥\x{3040}-ゟ゠-ヿ]+", DEEPSEEK3)),
}  # fmt: skip
