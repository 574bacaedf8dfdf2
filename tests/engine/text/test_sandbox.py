# ruff: noqa: E501 (templates, one a line)

from __future__ import annotations

import time

import pytest

from engine.api import BadModel, BadRequest, Message
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer

GROWING = "{% set n = namespace(s='aaaaaaaaaa') %}{% for i in range(60) %}{% set n.s = GROW %}{% endfor %}"
HOSTILE = {
    "reach": "{{ ''.__class__ }}",
    "reach by filter": "{{ ''|attr('__class__') }}",
    "reach by key": "{{ ''['__class__'] }}",
    "reach through a function": "{{ raise_exception.__globals__ }}",
    "change": "{% set l = [] %}{{ l.append(1) }}",
    "include": "{% include '/etc/hostname' %}",
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "long range": "{% for a in range(10**9) %}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "wide recursion": "{% macro f(n) %}{% for i in range(3) %}{{ f(n - 1) }}{% endfor %}{% endmacro %}{{ f(30) }}",
    "times": "{{ 'a' * 10**10 }}",
    "times a list": "{{ [1, 2] * 10**10 }}",
    "power": "{{ 9**9**9**9 }}",
    "adjust": "{{ 'a'.ljust(10**10) }}",
    "percent": "{{ '%10000000000d' % 1 }}",
    "format": "{{ '{:10000000000}'.format(1) }}",
    "indent": "{{ 'a'|indent(10**9) }}",
    "JSON indent": "{{ [1]|tojson(indent=10**9) }}",
    "join": "{{ ('a' * 1000000).join(range(99999)) }}",
    "join filter": "{{ range(99999)|join('a' * 1000000) }}",
    "replace": "{{ ('a' * 20000000).replace('', 'aaaaaaaaaaaaaa') }}",
    "one text many times": "{% set s = 'a' * 10000000 %}{{ [s] * 100000 }}",
    "caught output": "{% set x %}{% for i in range(99999) %}{{ 'a' * 100000 }}{% endfor %}{% endset %}",
    "map": "{{ ('x' * 1000000)|list|map('replace', 'x', 'y' * 10000)|list|length }}",
    "set block": "{% set n = namespace(s='aaaaaaaaaa') %}{% for i in range(60) %}{% set x %}{{ n.s }}{{ n.s }}{% endset %}"
    "{% set n.s = x %}{% endfor %}",
    **{grow: GROWING.replace("GROW", grow) for grow in (
        "n.s + n.s", "n.s ~ n.s", "n.s * 2", "n.s.replace('a', 'aa')", "n.s|replace('a', 'aa')", "[n.s, n.s]|join",
        "(n.s ~ '\"')|tojson|tojson", "[n.s, n.s]|string", "[n.s] + [n.s, n.s]|list",
    )},
}  # fmt: skip
BROKEN = {
    "syntax": "{% for %}",
    "undefined": "{{ a.b.c }}",
    "division": "{{ 1 / 0 }}",
    "kind": "{{ 1 + 'a' }}",
}


def text(source: str, tokenizer: Tokenizer) -> str:
    return Template(source, "m.gguf").encode(tokenizer, [Message("user", "Hi")])[1]


@pytest.mark.parametrize("name", [*HOSTILE, *BROKEN])
def test_what_is_hostile_or_broken_is_refused_soon(name: str, smollm2_tokenizer: Tokenizer):
    start = time.perf_counter()
    with pytest.raises(BadModel, match=r"^m\.gguf: its chat template can't be used"):
        text((HOSTILE | BROKEN)[name], smollm2_tokenizer)
    assert time.perf_counter() - start < 10


def test_what_templates_need_is_there(smollm2_tokenizer: Tokenizer):
    for source, wanted in (
        ("{{ {'a': '<é>'}|tojson }}", '{"a": "<é>"}'),
        ("{{ {'b': 1, 'a': 2}|tojson(indent=1, sort_keys=true) }}", '{\n "a": 2,\n "b": 1\n}'),
        ("{{ ['é']|tojson(ensure_ascii=true) }}", '["\\u00e9"]'),
        ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}x{% endgeneration %}", "x"),
        ("{{ strftime_now('%Y')|length }}", "4"),
        ("{{ messages|map(attribute='content')|join(', ') }}", "Hi"),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ 'x-y'.split('-')[1]|upper + 'é'.strip() }}", "Yé"),
        ("{{ '{:02d}'.format(7) }}", "07"),
        ("  {% if true %}\na\n  {% endif %}\nb", "a\nb"),
        (
            "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}{% set n = namespace(k=1) %}{% set n.k = 2 %}{{ n.k }}",
            "[1]2",
        ),
    ):
        assert text(source, smollm2_tokenizer) == wanted


def test_long_conversations_are_no_attack(smollm2_tokenizer: Tokenizer, smollm2_template: Template):
    messages = [Message("user" if index % 2 == 0 else "assistant", "word " * 500) for index in range(401)]
    ids, rendered = smollm2_template.encode(smollm2_tokenizer, messages)
    assert rendered.count("<|im_start|>") == 403
    assert len(ids) > 200_000


def test_a_template_can_refuse_a_conversation(smollm2_tokenizer: Tokenizer):
    with pytest.raises(BadRequest, match="can't take this conversation: only pairs"):
        text("{{ raise_exception('only pairs') }}", smollm2_tokenizer)
