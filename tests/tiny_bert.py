"""A BERT sentence model small enough to be computed by hand: its published files, and its vectors."""

import json
import math
import random
import struct

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s", "dog", "the", "run", "."]
SIZE, INNER, HEADS, LAYERS, POSITIONS = 64, 96, 2, 2, 32

Row = list[float]
Matrix = list[Row]


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), SIZE),
        "embeddings.position_embeddings.weight": (POSITIONS, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
    }
    norms = ["embeddings.LayerNorm"]
    linear = {"pooler.dense": (SIZE, SIZE)}
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        linear |= {f"{name}.attention.self.{part}": (SIZE, SIZE) for part in ("query", "key", "value")}
        linear[f"{name}.attention.output.dense"] = (SIZE, SIZE)
        linear[f"{name}.intermediate.dense"] = (INNER, SIZE)
        linear[f"{name}.output.dense"] = (SIZE, INNER)
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes | {f"{name}.{part}": (SIZE,) for name in norms for part in ("weight", "bias")}


class TinyBert:
    """The same random numbers every time."""

    def __init__(self) -> None:
        numbers = random.Random(7)
        self._weights = {
            name: [
                # About one: else the vectors of all texts were much the same.
                numbers.gauss(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.15)
                for _ in range(math.prod(shape))
            ]
            for name, shape in _shapes().items()
        }

    def pieces(self) -> tuple[bytes, bytes, bytes]:
        """`config.json`, `vocab.txt`, `model.safetensors`."""
        settings = {
            "hidden_size": SIZE, "intermediate_size": INNER, "layer_norm_eps": 1e-12,
            "max_position_embeddings": POSITIONS, "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS, "type_vocab_size": 2, "model_type": "bert",
        }  # fmt: skip
        return json.dumps(settings).encode(), "".join(f"{word}\n" for word in WORDS).encode(), self._tensors()

    def _tensors(self) -> bytes:
        places, data = {}, b""
        for name, shape in _shapes().items():
            packed = struct.pack(f"<{len(self._weights[name])}f", *self._weights[name])
            places[name] = {
                "dtype": "F32",
                "shape": shape,
                "data_offsets": (len(data), len(data) + len(packed)),
            }
            data += packed
        header = json.dumps({"__metadata__": {"format": "pt"}, **places}).encode()
        return struct.pack("<Q", len(header)) + header + data

    def vector(self, words: list[str]) -> Row:
        """Compute the model's vector for these words, as BERT is defined."""
        kinds = self._weights["embeddings.token_type_embeddings.weight"]
        rows: Matrix = []
        for place, word in enumerate(words):
            at = self._row("embeddings.word_embeddings.weight", WORDS.index(word))
            where = self._row("embeddings.position_embeddings.weight", place)
            rows.append([sum(each) for each in zip(at, where, kinds[:SIZE], strict=True)])
        rows = self._normal(rows, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            rows = self._layer(rows, f"encoder.layer.{layer}")
        return normal([sum(column) for column in zip(*rows, strict=True)])

    def _row(self, name: str, number: int) -> Row:
        return self._weights[name][number * SIZE : (number + 1) * SIZE]

    def _layer(self, rows: Matrix, name: str) -> Matrix:
        mixed = self._linear(
            self._attention(rows, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        rows = self._normal(_sum(rows, mixed), f"{name}.attention.output.LayerNorm")
        inner = [
            [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in row]
            for row in self._linear(rows, f"{name}.intermediate.dense")
        ]
        return self._normal(
            _sum(rows, self._linear(inner, f"{name}.output.dense")), f"{name}.output.LayerNorm"
        )

    def _attention(self, rows: Matrix, name: str) -> Matrix:
        query, key, value = (self._linear(rows, f"{name}.{part}") for part in ("query", "key", "value"))
        width = SIZE // HEADS
        found: Matrix = [[] for _ in rows]
        for start in range(0, SIZE, width):
            part = slice(start, start + width)
            for place, asked in enumerate(query):
                scores = [math.exp(_product(asked[part], each[part]) / math.sqrt(width)) for each in key]
                found[place] += [
                    sum(score * each[column] for score, each in zip(scores, value, strict=True)) / sum(scores)
                    for column in range(start, start + width)
                ]
        return found

    def _linear(self, rows: Matrix, name: str) -> Matrix:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        width = len(rows[0])
        return [
            [_product(row, weight[n * width : (n + 1) * width]) + bias[n] for n in range(len(bias))]
            for row in rows
        ]

    def _normal(self, rows: Matrix, name: str) -> Matrix:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        found = []
        for row in rows:
            mean = sum(row) / len(row)
            spread = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-12)
            found.append([(x - mean) / spread * w + b for x, w, b in zip(row, weight, bias, strict=True)])
        return found


def normal(row: Row) -> Row:
    """Scale the vector to length one."""
    length = math.sqrt(_product(row, row))
    return [x / length for x in row]


def likeness(one: Row, other: Row) -> float:
    """Return the cosine of two vectors of length one."""
    return _product(one, other)


def _sum(one: Matrix, other: Matrix) -> Matrix:
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(one, other, strict=True)]


def _product(one: Row, other: Row) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
