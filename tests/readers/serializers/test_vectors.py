"""Every vector has its value compared exactly: by the tests of its family, or here."""

from __future__ import annotations

import datetime
import gzip
import json
import struct
from typing import Any

import pytest

from readers.connectors import files, kafka
from readers.serializers.kryo.settings import KryoClass
from readers.stateinfo.refinement import Knowledge
from tests.readers.serializers import test_rowdata, test_serializers, test_streaming
from tests.support.single_values import VECTORS, decode_one, serializer_of, vectors, vectors_of

KAFKA_PARTITION = "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition"
LEGACY_KAFKA = "FlinkKafkaConsumer topic-partition-offset-states Tuple2<Kryo KafkaTopicPartition,Long>"
CLASSES = {
    KAFKA_PARTITION: KryoClass(
        fields=(("cachedHash", "int"), ("partition", "int"), ("topic", "java.lang.String"))
    )
}
KAFKA_SPLIT = {"topic": "t", "partition": 3, "starting_offset": 100, "stopping_offset": None}
ENUMERATOR = {
    "partitions": [{"topic": "t", "partition": 0, "assignment_status": "ASSIGNED"}],
    "initial_discovery_finished": True,
}
FILE_SPLIT = {
    "split_id": "id1",
    "path": "file:/tmp/a.txt",
    "offset": 0,
    "length": 10,
    "modification_time": 5,
    "file_size": 10,
    "hosts": ["h"],
    "records_after_offset": 2,
    "reader_offset": 4,
}

SERIALIZED: dict[tuple[str, str], Any] = {
    ("POJO Java record Rec", "1"): {"a": "q", "b": 4, "c": "[7]"},
    ("TtlValue<RowData(INT)>", "1"): {
        "value": {"f0": 1, "__row_kind": "+I"},
        "last_access": datetime.datetime(1970, 1, 1, microsecond=5000),
    },
    ("TtlValue<RowData(INT)>", "2"): {
        "value": {"f0": 1, "__row_kind": "+I"},
        "last_access": datetime.datetime(1970, 1, 1, microsecond=5000),
    },
    (LEGACY_KAFKA, "1"): {
        "f0": f'{{"@class":"{KAFKA_PARTITION}","cachedHash":-957340384,"partition":3,"topic":"topic-a"}}',
        "f1": 100,
    },
}


@pytest.mark.parametrize(("name", "flink"), SERIALIZED)
def test_what_flink_wrote(name: str, flink: str) -> None:
    (entry,) = (found for found in vectors() if found["type"] == name and found["flink"][0] == flink)
    (value,) = entry["values"]

    found = decode_one(
        Knowledge(kryo=0, classes=CLASSES).inform(serializer_of(entry)), bytes.fromhex(value["hex"])
    )

    assert found == SERIALIZED[name, flink]


CONNECTORS = {
    "KafkaPartitionSplit": (kafka.SPLITS, KAFKA_SPLIT),
    "SourceReaderState element (SimpleVersionedSerialization of KafkaPartitionSplit)": (
        kafka.SPLITS,
        KAFKA_SPLIT,
    ),
    "KafkaSourceEnumState": (kafka.ENUMERATOR, ENUMERATOR),
    "FileSourceSplit": (files.SPLITS, FILE_SPLIT),
}
VERSIONED = [entry for entry in vectors() if "simple_version" in entry]


@pytest.mark.parametrize("entry", VERSIONED, ids=lambda entry: f"{entry['type']} {entry['flink']}")
def test_what_connectors_wrote(entry: dict[str, Any]) -> None:
    layout, expected = CONNECTORS[entry["type"]]
    body = bytes.fromhex(entry["values"][0]["hex"])
    if "SimpleVersionedSerialization" not in entry["type"]:
        body = struct.pack(">ii", entry["simple_version"], len(body)) + body
    if layout is kafka.ENUMERATOR:
        body = struct.pack(">i", 1) + body  # the version of the coordinator's own layout

    assert layout.read_whole(body) == expected


def test_no_value_of_a_vector_is_left_out() -> None:
    families = [parameter.values[0] for parameter in test_serializers._family_vectors()]
    families += test_rowdata.TABLE + VERSIONED
    for package in ("KryoSerializer", "AvroSerializer", "api.scala"):
        families += vectors_of(package)
    names = {"CopyableValueSerializer", "ValueSerializer"}  # test_values
    names_of_types = set(test_streaming.EXPECTED) | {name for name, _ in SERIALIZED}

    left_out = [
        entry
        for entry in vectors()
        if entry["values"]
        and entry not in families
        and entry["type"] not in names_of_types
        and entry.get("serializer_class", "").rsplit(".", 1)[-1] not in names
    ]

    assert left_out == []
    with gzip.open(VECTORS / "legacy-type-vectors.json.gz") as file:
        assert not any(entry["values"] for entry in json.load(file)["vectors"])
