"""Messages with recipients, and calls in `<atem:function_calls>`: how Muse Glimmer converses."""

from __future__ import annotations

from collections.abc import Sequence

from engine.api import Message, ToolCall, ToolSpec
from engine.text.calls import _atem_grammar
from engine.text.calls._atem_calls import BLOCK, END_BLOCK, END_INVOKE, END_PARAMETER
from engine.text.calls._atem_reader import AtemReader
from engine.text.reader import Reader, Setting
from engine.text.schema import dump, encode

NAMES = ("atem",)
ARCHITECTURES = ("muse-glimmer",)
PICTURE = ("<|image_start|>", "<|patch|>", "<|image_end|>")

INSTRUCTIONS = """You can call tools. To call one, address a message to it and write in the message:
<atem:function_calls>
<atem:invoke name="the tool's name">
<atem:parameter name="the parameter's name">its value</atem:parameter>
</atem:invoke>
</atem:function_calls>
Strings are written as they are, without quotation marks, and every space in them counts; lists and objects
are written as JSON. Nothing is escaped. These are the tools, with JSON schemas of their parameters:
"""

# For files that come without a template of their own.
TEMPLATE = (
    """{%- set instructions -%}
"""
    + INSTRUCTIONS
    + """{%- endset -%}
{%- macro message(head, text, end) -%}
<|start|>{{ head }}<|message|>{{ text }}{{ end }}
{%- endmacro -%}
{%- macro shown(content) -%}
{%- if content is string -%}{{ content }}{%- else -%}
{%- for part in content -%}{{ '<|patch|>' if part.type == 'image' else part.text }}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- macro written(value) -%}
{{ value if value is string else value | tojson }}
{%- endmacro -%}
{%- macro call(function) -%}
<atem:function_calls>
<atem:invoke name="{{ function.name }}">
{% for name, value in function.arguments.items() -%}
<atem:parameter name="{{ name }}">{{ written(value) }}</atem:parameter>
{% endfor -%}
</atem:invoke>
</atem:function_calls>
{%- endmacro -%}
{%- set first = messages[0] if messages and messages[0].role == 'system' -%}
{%- set system = namespace(text=first.content if first else 'You are a helpful assistant.') -%}
{%- if 'reasoning strength' not in system.text | lower -%}
{%- set system.text = system.text ~ '\\n\\nReasoning strength: ' ~ (reasoning_strength or 'high') ~ '.' -%}
{%- endif -%}
{%- set spaces = namespace(names=[]) -%}
{%- if tools -%}
{%- set system.text = system.text ~ '\\n\\n' ~ instructions -%}
{%- for tool in tools -%}
{%- set space = tool.function.name.split('.')[0] -%}
{%- if space not in spaces.names -%}{%- set spaces.names = spaces.names + [space] -%}{%- endif -%}
{%- endfor -%}
{%- for space in spaces.names -%}
{%- set system.text = system.text ~ '\\n{"name": "' ~ space ~ '", "description": ""}' -%}
{%- endfor -%}
{%- for tool in tools -%}
{%- set system.text = system.text ~ '\\n' ~ (tool.function | tojson) -%}
{%- endfor -%}
{%- endif -%}
{%- set system.text = system.text ~ '\\n\\n# Valid recipients: "self"' -%}
{%- for space in spaces.names -%}{%- set system.text = system.text ~ ', "' ~ space ~ '.*"' -%}{%- endfor -%}
{{ bos_token }}{{ message('system', system.text ~ ', "user".', '<|eot|>') }}
{%- for turn in messages -%}
{%- if turn.role == 'user' or (turn.role == 'system' and not loop.first) -%}
{{ message(turn.role, shown(turn.content), '<|eot|>') }}
{%- elif turn.role == 'tool' -%}
{%- set name = turn.name -%}
{%- set output = '<tool_output name="' ~ name ~ '">\\n' ~ turn.content ~ '\\n</tool_output>' -%}
{{ message('tool ' ~ name, output, '<|eot|>') }}
{%- elif turn.role == 'assistant' -%}
{%- if turn.reasoning_content -%}
{{ message('assistant to=self', turn.reasoning_content, '<|eom|>') }}
{%- endif -%}
{%- if turn.content or not turn.tool_calls -%}
{{ message('assistant to=user', turn.content, '<|eom|>' if turn.tool_calls else '<|eot|>') }}
{%- endif -%}
{%- for item in turn.tool_calls or [] -%}
{%- set end = '<|eot|>' if loop.last else '<|eom|>' -%}
{{ message('assistant to=' ~ item.function.name, call(item.function), end) }}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
"""
)


def recognises(template: str) -> bool:
    """Whether a chat template teaches this way."""
    return BLOCK in template and "<|eom|>" in template


def describe(tools: Sequence[ToolSpec]) -> str:
    """What a system message says of the tools."""
    spaces = dict.fromkeys(tool.name.partition(".")[0] for tool in tools)
    lines = [dump({"name": space, "description": ""}) for space in spaces]
    lines += [
        dump({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in tools
    ]
    return INSTRUCTIONS + "\n".join(lines)


def write(call: ToolCall) -> str:
    """A call as the model writes it, without its recipient."""
    parameters = "".join(
        f'<atem:parameter name="{name}">{encode(value)}{END_PARAMETER}\n'
        for name, value in call.arguments.items()
    )
    return f'{BLOCK}\n<atem:invoke name="{call.name}">\n{parameters}{END_INVOKE}\n{END_BLOCK}'


def write_result(message: Message) -> str:
    """A tool's answer as the model reads it."""
    return f'<tool_output name="{message.name}">\n{message.text}\n</tool_output>'


def grammar(tools: Sequence[ToolSpec]) -> str:
    """One call."""
    return _atem_grammar.call(tools)


def reader(setting: Setting) -> Reader:
    """What takes an answer apart."""
    return AtemReader(setting)
