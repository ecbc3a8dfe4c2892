"""State of connectors: recognised, read to the last byte, shown as columns and as offsets."""

from __future__ import annotations

import json
import struct
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.connectors import cdc, files, kafka, kinesis, pulsar, sequences
from readers.connectors.layout import COORDINATOR_STATE, READER_STATE, Layout
from readers.connectors.recognition import LAYOUTS, RecodedSerializer, recode, recognised
from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.offsets import SCHEMA, source_offsets
from readers.savepoint import Savepoint
from readers.states import DECODED
from tests.support.examples import examples
from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import DATA
from tests.support.single_values import decode_one
from tests.support.unpacked import unpacked

CONNECTORS = DATA / "connectors"
PULSAR_CURSORS = "org.apache.flink.connector.pulsar.source.enumerator.cursor.stop."
COMPILED = settings(deadline=None, max_examples=examples(60))  # the first example may compile the machine
SOURCES = (
    "1.20.3-source-kafka-hashmap-canonical",
    "2.3.0-source-kafka-hashmap-canonical",
    "1.20.3-source-file-canonical",
    "1.20.3-source-numberseq-canonical",
    "1.20.3-source-datagen-canonical",
)
ALL_LAYOUTS = [layout for layouts in LAYOUTS.values() for layout in layouts]


def i4(number: int) -> bytes:
    return struct.pack(">i", number)


def i8(number: int) -> bytes:
    return struct.pack(">q", number)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def versioned(version: int, body: bytes) -> bytes:
    return i4(version) + i4(len(body)) + body


def versioned_list(version: int, *bodies: bytes) -> bytes:
    return i4(version) + i4(len(bodies)) + b"".join(i4(len(body)) + body for body in bodies)


def kafka_split(topic: str = "t", partition: int = 0, start: int = 7, stop: int = -(1 << 63)) -> bytes:
    return utf(topic) + i4(partition) + i8(start) + i8(stop)


def binlog_split(tail: bytes) -> bytes:
    offset = b'{"file": "mysql-bin.3", "pos": "1234"}'
    offsets = b"\1" + i4(len(offset)) + offset + b"\0"
    schemas = i4(1) + utf("db.t") + i4(2) + b"{}"
    return i4(2) + utf("binlog-split") + utf("") + offsets + i4(0) + schemas + i4(0) + tail


KINESIS_SPLIT = (
    utf("arn:s") + utf("shard-2") + utf("LATEST") + b"\0" + i4(1) + utf("shard-1") + utf("0") + utf("99")
)


def kinesis_enumerator(status: bytes) -> bytes:
    split = KINESIS_SPLIT + b"\0"
    return b"\1" + utf("shard-2") + i4(1) + i4(2) + i4(len(split)) + split + status


# ---- real Flink ----


def values_of(savepoint: Savepoint) -> dict[str, list[Any]]:
    """State → (subtask, value) of its rows."""
    found: dict[str, list[Any]] = {}
    for operator in savepoint.operators:
        for state in operator.states:
            if state.name in LAYOUTS:
                assert state.status == DECODED, state.note
                rows = [row for batch in state.read() for row in batch.to_pylist()]
                found.setdefault(state.name, []).extend((row["_subtask"], row["value"]) for row in rows)
    return found


def in_terms_of_the_job(state: str, value: dict[str, Any]) -> dict[str, Any]:
    """A decoded value with the names and the choice of fields of the expected rows."""
    if "transactional_id_prefix" in value:
        return {"transactional_id_prefix": value["transactional_id_prefix"]}
    if "partitions" in value:
        partitions = sorted(value["partitions"], key=lambda partition: partition["partition"])
        return {
            "assigned_partitions": [
                {name: each[name] for name in ("topic", "partition")} for each in partitions
            ],
            "initial_discovery_finished": value["initial_discovery_finished"],
        }
    if "already_processed_paths" in value:
        return {
            "unassigned_splits": sorted(Path(split["path"]).name for split in value["splits"]),
            "already_processed_paths": sorted(Path(path).name for path in value["already_processed_paths"]),
        }
    if "records_after_offset" in value:
        return {"file": Path(value["path"]).name, "records_after_offset": value["records_after_offset"]}
    if "topic" in value:
        renamed = {name: value[name] for name in ("topic", "partition", "stopping_offset")}
        return renamed | {"offset": value["starting_offset"]}
    return value


def check(snapshot: Snapshot) -> None:
    assert snapshot.expected is not None
    decoded = values_of(Savepoint(snapshot.directory))
    expected: dict[str, list[dict[str, Any]]] = {}
    for line in snapshot.expected.read_text().splitlines():
        row = json.loads(line)
        name = COORDINATOR_STATE if row["state_name"] == "coordinator" else row["state_name"]
        if name in LAYOUTS:
            expected.setdefault(name, []).append(row)

    for name, rows in expected.items():
        with_subtask = all(row.get("subtask") is not None for row in rows)
        found = [
            json.dumps([subtask if with_subtask else None, in_terms_of_the_job(name, value)], sort_keys=True)
            for subtask, value in decoded[name]
        ]
        wanted = [
            json.dumps([row["subtask"] if with_subtask else None, row["value"]], sort_keys=True)
            for row in rows
        ]
        assert Counter(found) == Counter(wanted)


@pytest.mark.parametrize("archive", SOURCES)
def test_states_of_connectors_hold_what_the_job_had_read(archive, tmp_path):
    check(unpacked(archive, tmp_path))


@pytest.mark.slow
def test_connectors_in_the_corpus_hold_what_the_jobs_had_read(corpus):
    for snapshot in snapshots_of(corpus):
        if snapshot.case.startswith("source-") and snapshot.expected is not None:
            check(snapshot)


def test_kafka_offsets_are_a_table(tmp_path):
    snapshot = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path)

    table = source_offsets(Savepoint(snapshot.directory))

    assert table.schema == SCHEMA
    rows = sorted(table.to_pylist(), key=lambda row: row["partition"])
    assert [
        (row["topic"], row["partition"], row["starting_offset"], row["stopping_offset"]) for row in rows
    ] == [
        ("words-2.3.0-hashmap", partition, offset, None) for partition, offset in enumerate((10, 21, 32, 43))
    ]
    assert {row["operator_uid"] for row in rows} == {"kafka-source"}
    assert {row["connector"] for row in rows} == {"kafka"}
    assert {row["subtask"] for row in rows} == {0, 1}


def test_files_that_no_reader_has_are_offsets_without_a_subtask(tmp_path):
    snapshot = unpacked("1.20.3-source-file-canonical", tmp_path)

    rows = source_offsets(Savepoint(snapshot.directory)).to_pylist()

    assert sorted((Path(json.loads(row["details"])["path"]).name, row["subtask"]) for row in rows) == [
        ("f1.txt", None),
        ("f2.txt", None),
        ("f3.txt", 1),
        ("f4.txt", None),
        ("f5.txt", 0),
    ]
    assert {(row["connector"], row["topic"], row["starting_offset"]) for row in rows} == {
        ("filesystem", None, 0)
    }


def test_numbers_are_offsets_up_to_the_first_not_to_read(tmp_path):
    snapshot = unpacked("1.20.3-source-numberseq-canonical", tmp_path)

    rows = source_offsets(Savepoint(snapshot.directory)).to_pylist()

    assert [(row["subtask"], row["starting_offset"], row["stopping_offset"]) for row in rows] == [
        (0, 5247, 10000),
        (1, 246, 5000),
    ]


def test_the_legacy_consumer_keeps_tuples_of_topic_partition_and_offset(tmp_path):
    snapshot = unpacked("1.20.3-changelog-hashmap-materialized-chk-3", tmp_path)

    rows = source_offsets(Savepoint(snapshot.directory)).to_pylist()

    assert {row["connector"] for row in rows} == {"kafka"}
    assert snapshot.expected is not None
    expected = [json.loads(line) for line in snapshot.expected.read_text().splitlines()]
    assert sorted([row["topic"], row["partition"], row["starting_offset"]] for row in rows) == sorted(
        row["value"] for row in expected if row["state_name"] == "topic-partition-offset-states"
    )


# ---- layouts ----


@pytest.mark.parametrize(
    ("layout", "data", "value"),
    [
        (
            kafka.SPLITS,
            versioned(0, kafka_split(stop=90)),
            {"topic": "t", "partition": 0, "starting_offset": 7, "stopping_offset": 90},
        ),
        (
            kafka.ENUMERATOR,
            i4(1) + versioned(1, i4(1) + utf("t") + i4(3)),
            {
                "partitions": [{"topic": "t", "partition": 3, "assignment_status": "ASSIGNED"}],
                "initial_discovery_finished": None,
            },
        ),
        (
            kafka.ENUMERATOR,
            i4(1) + versioned(0, i4(1) + i4(0) + i4(5) + i4(1) + i4(len(kafka_split())) + kafka_split()),
            {
                "partitions": [
                    {
                        "topic": "t",
                        "partition": 0,
                        "starting_offset": 7,
                        "stopping_offset": None,
                        "assignment_status": "ASSIGNED",
                    }
                ],
                "initial_discovery_finished": None,
            },
        ),
        (
            kafka.WRITER,
            versioned(2, utf("p") + i4(1) + i4(2) + i4(1) + i4(1) + utf("p-0-1") + i8(9)),
            {
                "transactional_id_prefix": "p",
                "owned_subtask_id": 1,
                "total_owned_subtasks": 2,
                "transaction_ownership": "EXPLICIT_BY_WRITER_STATE",
                "precommitted_transactional_ids": [{"transactional_id": "p-0-1", "checkpoint_id": 9}],
            },
        ),
        (
            files.WRITER,
            versioned(
                3,
                i4(0x1E764B79)
                + versioned(1, struct.pack("<i", 2) + b"b1")
                + utf("/out/b1")
                + i8(5)
                + b"\1"
                + versioned(2, b"xyz"),
            ),
            {
                "bucket_id": "b1",
                "bucket_path": "/out/b1",
                "in_progress_file_creation_time": 5,
                "in_progress_file_version": 2,
                "in_progress_file": b"xyz",
            },
        ),
        (
            kinesis.SPLITS,
            versioned(0, utf("arn:s") + utf("shard-1") + utf("AT_SEQUENCE_NUMBER") + b"\1\0\1" + utf("495")),
            {
                "stream_arn": "arn:s",
                "shard_id": "shard-1",
                "shard_iterator_type": "AT_SEQUENCE_NUMBER",
                "starting_timestamp": None,
                "starting_sequence_number": "495",
            },
        ),
        (
            kinesis.SPLITS,
            versioned(2, KINESIS_SPLIT + b"\1"),
            {
                "stream_arn": "arn:s",
                "shard_id": "shard-2",
                "shard_iterator_type": "LATEST",
                "parent_shard_ids": ["shard-1"],
                "starting_hash_key": "0",
                "ending_hash_key": "99",
                "is_finished": True,
            },
        ),
        (
            kinesis.ENUMERATOR,
            i4(1) + versioned(0, kinesis_enumerator(b"")),
            {
                "last_seen_shard_id": "shard-2",
                "splits": [
                    {
                        "stream_arn": "arn:s",
                        "shard_id": "shard-2",
                        "shard_iterator_type": "LATEST",
                        "parent_shard_ids": ["shard-1"],
                        "starting_hash_key": "0",
                        "ending_hash_key": "99",
                        "is_finished": False,
                        "assignment_status": "UNASSIGNED",
                    }
                ],
            },
        ),
        (
            cdc.SPLITS,
            versioned(4, binlog_split(b"\0")),
            {
                "split_kind": "BINLOG",
                "split_id": "binlog-split",
                "starting_offset": '{"file": "mysql-bin.3", "pos": "1234"}',
                "ending_offset": None,
                "finished_splits": [],
                "table_schemas": [{"table_id": "db.t", "table_change": "{}"}],
                "total_finished_split_size": 0,
                "is_suspended": False,
            },
        ),
        (
            sequences.ENUMERATOR,
            i4(1) + versioned(1, i4(1) + utf("1") + i8(0) + i8(9)),
            {"splits": [{"split_id": "1", "from": 0, "to": 9}]},
        ),
    ],
)
def test_each_version_of_a_layout_is_read(layout, data, value):
    assert layout.read_whole(data) == value


def test_committables_of_kafka_are_read_and_others_are_bytes():
    def collector(committable: bytes, request_version: int = 1) -> bytes:
        request = versioned(request_version, committable) + i4(2) + i4(1)
        subtask = i4(0) + versioned_list(0, request) + i4(1) + i4(0)
        checkpoint = i8(4) + i4(1) + versioned_list(2, subtask)
        return versioned(2, struct.pack(">I", 0xB91F252C) + versioned_list(1, checkpoint))

    def committable(data: bytes) -> dict[str, Any]:
        value = kafka.COLLECTOR.read_whole(data)
        (request,) = value["checkpoints"][0]["subtasks"][0]["requests"]
        assert (request["retries"], request["state"]) == (2, "RETRY")
        found: dict[str, Any] = request["committable"]
        return found

    transaction = struct.pack(">hq", 3, 77) + utf("tx")

    assert committable(collector(transaction)) == {
        "version": 1,
        "bytes": transaction,
        "transactional_id": "tx",
        "producer_id": 77,
        "epoch": 3,
    }
    assert committable(collector(b"other")) == {"version": 1, "bytes": b"other"}


def test_the_position_in_a_binlog_is_an_offset():
    assert cdc.SPLITS.offsets is not None
    (offset,) = cdc.SPLITS.offsets(cdc.SPLITS.read_whole(versioned(4, binlog_split(b"\0"))))

    assert (offset.starting_offset, offset.stopping_offset) == (1234, None)
    assert offset.details["starting_offset"] == {"file": "mysql-bin.3", "pos": "1234"}


def test_an_element_of_the_legacy_consumer_is_read_through_kryo():
    element = bytes.fromhex("5701bfebfe9007" + "06" + "01" + "746f7069632de1" + "0000000000000064")

    found = kafka.read_legacy_offset(Cursor(element))

    assert found == {"topic": "topic-a", "partition": 3, "starting_offset": 100}


@pytest.mark.parametrize("length", range(15))
def test_a_truncated_element_of_the_legacy_consumer_is_an_error(length):
    element = bytes.fromhex("5701bfebfe90070601746f7069632de10000000000000064")

    with pytest.raises(ReaderError):
        kafka.read_legacy_offset(Cursor(element[:length]))


# ---- what the connectors' own serializers wrote ----

WRITTEN = {
    name: bytes.fromhex(data)
    for name, data in (line.split() for line in (CONNECTORS / "values.txt").read_text().splitlines())
}
WRITTEN_LAYOUTS = {
    "pulsar-split-new": pulsar.SPLITS,
    "pulsar-split-read": pulsar.SPLITS,
    "pulsar-split-keyed": pulsar.SPLITS,
    "pulsar-enumerator": pulsar.ENUMERATOR,
    "mysql-snapshot-split": cdc.SPLITS,
    "mysql-binlog-split": cdc.SPLITS,
    "mysql-enumerator-snapshot": cdc.ENUMERATOR,
    "mysql-enumerator-hybrid": cdc.ENUMERATOR,
    "mysql-enumerator-binlog": cdc.ENUMERATOR,
    "postgres-snapshot-split": cdc.BASE_SPLITS,
    "postgres-stream-split": cdc.BASE_SPLITS,
    "postgres-enumerator-snapshot": cdc.BASE_ENUMERATOR,
    "postgres-enumerator-hybrid": cdc.BASE_ENUMERATOR,
    "postgres-enumerator-stream": cdc.BASE_ENUMERATOR,
}
BINLOG = '{"ts_sec":"0","file":"mysql-bin.000003","pos":"154","kind":"SPECIFIC","row":"0","event":"0"}'
LSN = '{"ts_usec":"1700000000000000","lsn":"24023128","txId":"565"}'


def written(name: str) -> bytes:
    """A value as the state holds it: a coordinator puts its own version in front."""
    return (i4(1) if "enumerator" in name else b"") + WRITTEN[name]


def read_written(name: str) -> dict[str, Any]:
    value: dict[str, Any] = WRITTEN_LAYOUTS[name].read_whole(written(name))
    return value


def offset_of(name: str) -> tuple[Any, ...]:
    layout = WRITTEN_LAYOUTS[name]
    assert layout.offsets is not None
    (offset,) = layout.offsets(layout.read_whole(written(name)))
    return offset.topic, offset.partition, offset.starting_offset, offset.stopping_offset


def test_every_written_value_has_its_layout():
    assert WRITTEN.keys() == WRITTEN_LAYOUTS.keys()


@pytest.mark.parametrize("name", WRITTEN_LAYOUTS)
def test_a_written_value_is_recognised_as_its_layout_and_no_other(name):
    layout = WRITTEN_LAYOUTS[name]
    found = {COORDINATOR_STATE if "enumerator" in name else READER_STATE: [written(name)]}
    if layout in (cdc.ENUMERATOR, cdc.BASE_ENUMERATOR):
        family = "mysql-binlog-split" if layout.connector == "mysql-cdc" else "postgres-stream-split"
        found[READER_STATE] = [written(family)]

    assert recognised(found)[next(iter(found))] is layout


def test_a_pulsar_split_has_the_last_message():
    read = read_written("pulsar-split-read")

    assert read == {
        "topic": "persistent://shop/prod/orders",
        "partition": 3,
        "ranges": [{"start": 0, "end": 65535}],
        "stop_cursor": f"{PULSAR_CURSORS}LatestMessageStopCursor",
        "ledger_id": 4711,
        "entry_id": 42,
        "transaction_most_bits": 1,
        "transaction_least_bits": 99,
    }
    assert offset_of("pulsar-split-read") == ("persistent://shop/prod/orders", 3, None, None)


def test_a_pulsar_split_of_a_topic_without_partitions_has_ranges_of_hashes():
    read = read_written("pulsar-split-keyed")

    assert read["ranges"] == [{"start": 0, "end": 100}, {"start": 200, "end": 65535}]
    assert (read["ledger_id"], read["entry_id"]) == (7, 8)
    assert offset_of("pulsar-split-keyed") == ("persistent://shop/prod/clicks", None, None, None)


def test_a_pulsar_split_that_was_not_read_has_no_message():
    assert read_written("pulsar-split-new") == {
        "topic": "persistent://shop/prod/orders",
        "partition": 3,
        "ranges": [{"start": 0, "end": 65535}],
        "stop_cursor": f"{PULSAR_CURSORS}NeverStopCursor",
    }
    assert read_written("pulsar-enumerator") == {
        "partitions": [
            {
                "topic": "persistent://shop/prod/orders",
                "partition": 3,
                "ranges": [{"start": 0, "end": 65535}],
            }
        ]
    }


@pytest.mark.parametrize(
    ("name", "starting_offset"), [("mysql-binlog-split", 154), ("postgres-stream-split", 24023128)]
)
def test_the_place_in_a_log_is_an_offset(name, starting_offset):
    assert offset_of(name) == (None, None, starting_offset, None)


@pytest.mark.parametrize(
    ("name", "kind", "table", "place", "extra"),
    [
        ("mysql-binlog-split", "BINLOG", "shop.orders", BINLOG, {"is_suspended": True}),
        (
            "postgres-stream-split",
            "STREAM",
            "public.orders",
            LSN,
            {"is_suspended": False, "is_snapshot_completed": True},
        ),
    ],
)
def test_a_split_of_the_log_knows_the_finished_ones(name, kind, table, place, extra):
    split = read_written(name)

    (finished,) = split["finished_splits"]
    assert (split["split_kind"], split["starting_offset"]) == (kind, place)
    assert (finished["table_id"], finished["split_id"]) == (table, f"{table}:0")
    assert finished["high_watermark"] == place
    assert {field: split[field] for field in split if field.startswith("is_")} == extra


@pytest.mark.parametrize(
    ("name", "kind", "place", "extra"),
    [
        ("mysql-enumerator-snapshot", "SNAPSHOT", BINLOG, {}),
        ("mysql-enumerator-hybrid", "HYBRID", BINLOG, {"is_stream_split_assigned": True}),
        ("postgres-enumerator-snapshot", "SNAPSHOT", LSN, {}),
        ("postgres-enumerator-hybrid", "HYBRID", LSN, {"is_stream_split_assigned": True}),
    ],
)
def test_an_enumerator_knows_what_is_left(name, kind, place, extra):
    state = read_written(name)

    assert state["kind"] == kind
    assert [split["split_id"].rpartition(".")[2] for split in state["remaining_splits"]] == ["orders:0"]
    assert state["assigned_splits"] == state["remaining_splits"]
    assert [offset["offset"] for offset in state["finished_offsets"]] == [place]
    assert [table.replace('"', "").rpartition(".")[2] for table in state["remaining_tables"]] == ["customers"]
    assert state["next_chunk_id"] == 7
    assert {field: state[field] for field in state if field.startswith("is_stream")} == extra
    assert state.get("finished_checkpoints", []) == (
        [{"split_id": "public.orders:0", "checkpoint_id": 12}] if place == LSN else []
    )


@pytest.mark.parametrize(
    ("name", "is_assigned"), [("mysql-enumerator-binlog", True), ("postgres-enumerator-stream", False)]
)
def test_an_enumerator_of_the_log_only_has_nothing_left(name, is_assigned):
    assert read_written(name) == {"kind": "STREAM", "is_stream_split_assigned": is_assigned}


# ---- recognition ----


def test_a_layout_is_recognised_only_if_all_values_fit():
    good = versioned(0, kafka_split())

    assert recognised({READER_STATE: [good, good]}) == {READER_STATE: kafka.SPLITS}
    assert recognised({READER_STATE: [good, versioned(0, kafka_split() + b"\0")]}) == {}
    assert recognised({READER_STATE: [good, versioned(9, kafka_split())]}) == {}
    assert recognised({READER_STATE: []}) == {}


def test_an_enumerator_without_splits_is_that_of_the_readers():
    empty = i4(1) + versioned(1, i4(0))
    number = versioned(1, utf("1") + i8(0) + i8(9))

    assert recognised({COORDINATOR_STATE: [empty]}) == {}
    assert recognised({COORDINATOR_STATE: [empty], READER_STATE: [number]}) == {
        COORDINATOR_STATE: sequences.ENUMERATOR,
        READER_STATE: sequences.SPLITS,
    }


@COMPILED
@given(st.sampled_from(ALL_LAYOUTS), st.binary(max_size=80))
def test_random_bytes_are_a_value_or_an_error(layout, data):
    with suppress(ReaderError):
        layout.read_whole(data)


def real_values() -> list[tuple[Layout, bytes]]:
    number = utf("12") + i8(3) + i8(9)
    return [
        (kafka.SPLITS, versioned(0, kafka_split("topic"))),
        (kafka.ENUMERATOR, i4(1) + versioned(2, i4(1) + utf("t") + i4(0) + i4(1) + b"\1")),
        (kafka.WRITER, versioned(1, utf("prefix"))),
        (sequences.SPLITS, versioned(1, number)),
        (cdc.SPLITS, versioned(4, binlog_split(b"\1"))),
        (kinesis.SPLITS, versioned(0, utf("arn") + utf("s") + utf("LATEST") + b"\0")),
        (kinesis.SPLITS, versioned(2, KINESIS_SPLIT + b"\1")),
        (kinesis.ENUMERATOR, i4(1) + versioned(1, kinesis_enumerator(i4(1)))),
        (sequences.ENUMERATOR, i4(1) + versioned(1, i4(1) + number)),
        *((layout, written(name)) for name, layout in WRITTEN_LAYOUTS.items()),
    ]


@pytest.mark.parametrize(("layout", "data"), real_values())
def test_truncated_and_longer_values_are_errors(layout, data):
    for other in [data[:length] for length in range(len(data))] + [data + b"\0"]:
        with pytest.raises(ReaderError):
            layout.read_whole(other)


@COMPILED
@given(st.sampled_from(real_values()), st.integers(0, 200), st.integers(1, 255))
def test_broken_values_are_values_or_errors(value, position, flip):
    layout, data = value
    broken = bytearray(data)
    broken[position % len(data)] ^= flip
    try:
        read = layout.read_whole(bytes(broken))
    except ReaderError:
        return
    recode(read, layout.type)


@pytest.mark.parametrize(("layout", "data"), real_values())
def test_what_is_laid_out_again_reads_the_same(layout, data):
    value = layout.read_whole(data)

    found = decode_one(RecodedSerializer(layout), recode(value, layout.type))

    assert found == _completed(value, found)


def _completed(value: Any, found: Any) -> Any:
    """`value` with the nulls that `found` has in place of fields that were not set."""
    if isinstance(value, dict):
        return {name: _completed(value.get(name), found[name]) for name in found}
    if isinstance(value, list):
        return [_completed(*pair) for pair in zip(value, found, strict=True)]
    return value
