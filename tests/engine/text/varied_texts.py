"""Texts of every kind that a tokenizer meets; the same ones at every run."""
# ruff: noqa: E501, SIM905 (tables of texts)

from __future__ import annotations

import random
from collections.abc import Callable

SCRIPTS = [
    "The quick brown fox jumps over the lazy dog.", "Größe, Öl und Äpfel für süße Mädchen", "¿Dónde está el niño?",
    "Ça va très bien, merci beaucoup!", "Съешь ещё этих мягких французских булок", "Ξεσκεπάζω τὴν ψυχοφθόρα",
    "我能吞下玻璃而不伤身体。", "私はガラスを食べられます。それは私を傷つけません。", "나는 유리를 먹을 수 있어요.",
    "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ", "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती", "আমি কাঁচ খেতে পারি",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني", "אני יכול לאכול זכוכית וזה לא מזיק לי", "Tôi có thể ăn thủy tinh",
    "நான் கண்ணாடி சாப்பிடுவேன்", "მინას ვჭამ და არა მტკივა", "Կրնամ ապակի ուտել", "ខ្ញុំអាចញុំកញ្ចក់បាន", "𐌼𐌰𐌲 𐌲𐌻𐌴𐍃 𐌹̈𐍄𐌰𐌽",
]  # fmt: skip
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "☺", "🧑🏿‍🚀", "1️⃣", "⏰", "𓀀", "🫠"]
MARKS = [
    "e\u0301",
    "a\u0308",
    "o\u0302\u0323",
    "ก็",
    "n\u0303",
    "\u0301",
    "Z\u0337\u0324\u030e",
    "कि",
    "ᄒ\u1161ᆫ",
]
CODE = [
    "def f(x: int) -> str:\n    return f'{x!r:>10}'\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i]*b[i];\n}\n",
    "SELECT * FROM t WHERE a='b' AND c>=10;--x", "<div class=\"a\">\r\n  <b>it's</b>\r\n</div>", "{\"k\": [1, 2.5e-3, null]}",
    "if err != nil { return fmt.Errorf(\"x: %w\", err) }", "x = y**2 // 3 != 0b1010 | 0xFF", "#include <vector>\n\n\n#define A(x) (x)",
    "git commit -m 'it''s' && rm -rf ./*.o", "\\begin{align*} \\frac{a}{b} \\end{align*}", "https://a.b/c?d=e&f=%20#g", "C:\\Users\\x\\y.txt",
]  # fmt: skip
MARKUP = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<unk>", "<s>", "</s>",
    "<pad>", "<mask>", "<unused12>", "<0x41>", "<0x0A>", "<reponame>", "<file_sep>", "<filename>", "<table>", "</td>", "<h1>", "<b>",
    "<|im_start", "im_end|>", "<tool_call>", "</tool_call>", "<think>", "<start_of_image>", "[multimodal]", "<|fim_prefix|>", "▁", "▁▁a", "Ġ", "Ċx",
]  # fmt: skip
SPACES = [" ", "  ", "   ", " " * 7, " " * 33, "\t", "\t\t\t", "\n", "\n\n", "\n" * 5, "\r\n", "\r\n\r\n", "\r", " \n", "\n ", "\u00a0",
          "\u3000", "\u200b", "\u2028", "\x0b", "\x0c", "\x85", "\ufeff", "\u1680", "\u202f"]  # fmt: skip
WORDS = ("it's I'll we've THEY'RE don'T he'd I'M naïve café hello Hello HELLO helloWorld HTTPServer foo_bar a bb ccc "
         "wordword don’t e.g. U.S.A. 3rd mother-in-law ... !!! ?! -- —  „quoted“ (paren) [x] {y} @user #tag $5 50% ½ ²").split()  # fmt: skip


def _numbers(dice: random.Random) -> str:
    digits = "".join(dice.choice("0123456789") for _ in range(dice.randint(1, 30)))
    return dice.choice(
        [digits, f"{dice.randint(0, 10**9):,}", f"-{dice.random():.6f}", "٣٤٥", "१२३", "Ⅳ①", digits + "th"]
    )


def _letters(dice: random.Random) -> str:
    """Characters from anywhere in Unicode, assigned or not, but never half of one."""
    ranges = [
        (0, 0x80),
        (0x80, 0x250),
        (0x250, 0x3000),
        (0x3000, 0xD800),
        (0xE000, 0x11000),
        (0x1F300, 0x1FB00),
        (0x10000, 0x30000),
    ]
    start, end = dice.choice(ranges)
    return "".join(chr(dice.randrange(start, end)) for _ in range(dice.randint(1, 12)))


def _runs(dice: random.Random) -> str:
    return dice.choice(
        ["a", "=", "-", "ab", "!", "哈", "の", "0", "👍", "'", "'s", "aA", ". "]
    ) * dice.randint(1, 70)


def _pick(choices: list[str]) -> Callable[[random.Random], str]:
    return lambda dice: dice.choice(choices)


MAKERS = [
    _pick(SCRIPTS),
    _pick(EMOJI),
    _pick(MARKS),
    _pick(CODE),
    _pick(MARKUP),
    _pick(SPACES),
    _pick(WORDS),
    _numbers,
    _letters,
    _runs,
]
FIXED = [
    "",
    " ",
    "a",
    "\x00",
    "a\x00b",
    "\n",
    "\r\n",
    "\t",
    "👍",
    "  leading",
    "trailing  ",
    "<|im_start|>user\nHi<|im_end|>\n",
    "'",
    "''",
    "\U0010ffff",
]


def varied_texts(count: int = 2_000, seed: int = 7) -> list[str]:
    """`count` texts, from nothing to some hundred characters."""
    dice = random.Random(seed)
    texts = [*FIXED, *SCRIPTS, *EMOJI, *MARKS, *CODE, *MARKUP, *SPACES, *WORDS]
    while len(texts) < count:
        joiner = dice.choice(["", "", " ", "\n", "  "])
        texts.append(joiner.join(dice.choice(MAKERS)(dice) for _ in range(dice.randint(1, 12))))
    return texts[:count]
