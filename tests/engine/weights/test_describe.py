"""The description of a model file, for people and for programs."""

import json

import numpy as np
import pytest
from gguf import GGUFWriter

from engine import BadModel
from engine.weights.describe import describe
from engine.weights.gguf import GgufFile


def test_smollm2_for_programs(smollm2):
    with GgufFile(smollm2) as file:
        description = describe(file)
    facts = json.loads(json.dumps(description.as_dict()))
    assert facts == {
        "name": "Smollm2 135M 8k Lc100K Mix1 Ep2",
        "architecture": "llama",
        "parameters": 134_515_008,
        "file_bytes": 98_362_432,
        "types": {"Q4_1": 66_355_200, "Q8_0": 30_081_024, "F32": 140_544},
        "layers": 30,
        "context_length": 8_192,
        "tokenizer": "gpt2",
        "tokens": 49_152,
        "has_template": True,
    }
    assert list(facts["types"]) == ["Q4_1", "Q8_0", "F32"] and description.quantisation == "Q4_1, Q8_0, F32"


def test_gemma3_for_people(gemma3):
    with GgufFile(gemma3) as file:
        lines = str(describe(file)).splitlines()
    told = {line[:14].rstrip(): line[15:] for line in lines}
    assert told["Name"] == "Gemma 3 270m" and told["Architecture"] == "gemma3"
    assert told["Parameters"] == "268 million (268,098,176)" and told["File"] == "253.1 MB"
    assert told["Storage"].startswith("Q8_0 179.8 MB, Q5_0 43.6 MB, Q4_K 13.3 MB")
    assert told["Context"] == "32,768 tokens" and told["Tokenizer"] == "llama, 262,144 tokens"
    assert told["Layers"] == "18" and told["Chat template"] == "no"


def bare(path, architecture, **texts):
    writer = GGUFWriter(path, architecture)
    for key, value in texts.items():
        writer.add_string(f"general.{key}", value)
    writer.add_tensor("t", np.zeros((2, 3), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_model_we_cannot_run_and_that_says_little(tmp_path):
    with GgufFile(bare(tmp_path / "Odd one.gguf", "mamba")) as file:
        description = describe(file)
    assert (description.name, description.architecture, description.parameters) == ("Odd one", "mamba", 6)
    assert (description.layers, description.context_length, description.tokenizer) == (None, None, None)
    assert "unknown" in str(description) and "None" not in str(description)


def test_names_cannot_play_with_the_terminal(tmp_path):
    with GgufFile(bare(tmp_path / "m.gguf", "llama", name="\x1b[31mred\nsecond line" + "x" * 500)) as file:
        told = str(describe(file))
    assert "\x1b" not in told and len(told.splitlines()) == 9
    assert len(max(told.splitlines(), key=len)) < 110


def test_a_file_without_an_architecture_is_refused(tmp_path):
    path = bare(tmp_path / "m.gguf", "llama")
    path.write_bytes(path.read_bytes().replace(b"general.architecture", b"general.architectura"))
    with (
        GgufFile(path) as file,
        pytest.raises(BadModel, match=r"m\.gguf: general\.architecture is missing\."),
    ):
        describe(file)
