"""Between text and tokens: vocabularies, chat templates, tool calls and grammars."""
