"""Bytes of Flink savepoints → Arrow. Knows Flink; knows no SQL, no HTTP, no table names.

In: the path of a savepoint or checkpoint. Out: its operators and states, and their entries as `pyarrow.RecordBatch`es. This module
is the face of the room: the catalog and the service import from nowhere else in it.

In reading order:

    savepoint.py     Savepoint: `_metadata`, opened
    operators.py     Operator: opens state files and collects their states
    states.py        State and StatePart: schema and rows
    rows.py          entries → rows
    differences/     two states, compared
    formats/         state files: handle → source → pages of entries
    headers/         headers of state files: the states and their types
    snapshots/       serializer snapshots: how the types are recorded
    serializers/     how one value is laid out
    decode/          the machine that turns entries into columns
    compiled/        machine code for its loops, compiled once
    metadata/        the `_metadata` file
    storage/         where files are now, and how they are read
    stateinfo/       the user's JSON file with names and types
    surveys/         one pass over the keys of states
    description.py   writes such a file
    connectors/      what connectors keep in opaque bytes
    offsets.py       positions of sources, from these
    classfiles/      class files and jars, read and never run
    extraction/      Java types → serializers, as a job extracts them
    jobclasses/      what the classes of a job's jars say of its values
    keygroups.py     Java's hashes, key groups, operator ids
    cursor.py        reads numbers and text from bytes, with checks
    javaio.py        Java's object streams
    jsontext.py      columns as JSON text
    timetext.py      times as text
    errors.py        what can go wrong
"""

from readers.classfiles.classfile import ClassFile, ClassMethod
from readers.classfiles.classpath import ClassPath
from readers.classfiles.constantpool import ClassConstant, Member
from readers.classfiles.jar import Jar
from readers.classfiles.signatures import OBJECT, JavaType, class_type, method_signature
from readers.compiled.ahead import UNITS as COMPILED_UNITS
from readers.compiled.ahead import compile_all, missing_units
from readers.compiled.kernel import kernel
from readers.compiled.routines import Intrinsic, subroutine
from readers.compiled.store import logger as compile_log
from readers.connectors.layout import Layout as ConnectorLayout
from readers.connectors.source import ConnectorSource
from readers.decode import instructions
from readers.decode.columns import NO_COLUMN, ColumnTree
from readers.decode.decoder import Batch, load_machine, warm
from readers.decode.loads import (
    load_i2,
    load_i4,
    load_i8,
    load_le_i2,
    load_le_i4,
    load_le_i8,
    load_u1,
    stack_memory,
    store_1,
    store_2,
    store_4,
    store_8,
    store_be_2,
    store_be_4,
    store_be_8,
)
from readers.decode.machine.code import target, word
from readers.decode.machine.decimals import is_within
from readers.decode.page import Page
from readers.decode.program import Code, Program
from readers.description import write_state_info
from readers.differences.hashes import Hashes, combined_hashes, row_hashes
from readers.differences.matching import matching_rows, other_rows
from readers.differences.states import ComparedState, differing_rows
from readers.errors import (
    AccessDeniedError,
    CorruptDataError,
    FileChangedError,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    SavepointGoneError,
    StorageError,
    UnsupportedSerializerError,
    UnsupportedStateError,
    UnsupportedVersionError,
    ValueOutOfRangeError,
)
from readers.extraction.extractor import Registrations, TypeExtractor
from readers.formats.composite.layout import composite_program
from readers.formats.composite.source import ComposedSource
from readers.formats.entry import OUT_OF_RANGE, UNDECODED, WHOLE_MAP, Entry, StateKind, state_meta_info
from readers.formats.operatorstate.layout import operator_program
from readers.formats.operatorstate.source import OperatorSource, operator_header_of
from readers.formats.source import Selection, Source, StateName, StateRun, StoredGroup, StoredGroups, Tally
from readers.headers.keyed import StoredHeader
from readers.headers.metainfo import BackendStateType, StateMetaInfo
from readers.javaio import JavaObject, read_object
from readers.jobclasses.jobclasses import JobClasses
from readers.jsontext import iso_timestamp, json_text
from readers.keygroups import key_group_bytes, key_groups_of_subtask, operator_id_of
from readers.metadata import (
    OperatorState,
    StateObject,
)
from readers.metadata.model import first_flink
from readers.metadata.reader import MAGIC
from readers.metadata.reader import NEWEST_VERSION as NEWEST_METADATA
from readers.metadata.reader import OLDEST_VERSION as OLDEST_METADATA
from readers.offsets import SCHEMA as SOURCE_OFFSETS
from readers.offsets import OffsetPlace, offset_places, source_offsets
from readers.operators import Operator
from readers.rows import KEY_GROUP, ROW, SUBTASK, conform, is_keyed, merged_type
from readers.savepoint import Savepoint
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import OpaqueSerializer, Serializer, rebuild
from readers.serializers.containers import (
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    SetSerializer,
)
from readers.serializers.kryo.classes import (
    BOXES,
    COLLECTIONS,
    IMMUTABLE_COLLECTIONS,
    MAPS,
    PRIMITIVES,
)
from readers.serializers.kryo.input import KryoInput
from readers.serializers.kryo.objects import value_reader as kryo_value_reader
from readers.serializers.kryo.reader import KryoReader
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import (
    KRYO_2_24,
    KRYO_5,
    KryoRegistration,
    KryoSettings,
    KryoType,
    component_of,
)
from readers.serializers.named import BASIC_TYPES, type_named
from readers.serializers.operators import TtlSerializer
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import VoidNamespaceSerializer
from readers.serializers.protobuf.descriptors import Descriptors, read_descriptors
from readers.serializers.scala import ScalaCaseClassSerializer
from readers.serializers.table.rowdata import RowDataSerializer
from readers.serializers.tuples import ROW_KIND, EitherSerializer, RowSerializer, TupleSerializer
from readers.snapshots.reading import COMPOSITE_MAGIC, NESTED_MAGIC, OPTIONAL_MAP_MAGIC
from readers.snapshots.registry import has_snapshot
from readers.stateinfo.file import (
    STATE_INFO_FILE_NAME,
    OperatorInfo,
    StateInfo,
    TypeInfo,
    load_state_info,
    read_bounded,
)
from readers.stateinfo.plans import JobPlan, load_job_plan, read_job_plan
from readers.states import State, StatePart, UnreadHandle
from readers.storage.cachefolder import cache_directory
from readers.storage.filesystems import FileSystem, Listing, absolute
from readers.storage.location import (
    DEFAULT_OPTIONS,
    METADATA_FILE_NAME,
    Location,
    ReadCounter,
    ResolvedFile,
    SavepointLocation,
    StorageOptions,
    Stream,
    file_system_of,
    given_location,
)
from readers.storage.remote import RemoteEntry, RemoteFileSystem
from readers.storage.schemes import arrow_filesystem, needed_credentials, s3_arguments
from readers.surveys.orphans import orphan_timers
from readers.surveys.survey import KeySurvey, LargeKey, garbage_share, key_texts, survey, update_times

__all__ = [
    "BASIC_TYPES",
    "BOXES",
    "COLLECTIONS",
    "COMPILED_UNITS",
    "COMPOSITE_MAGIC",
    "DEFAULT_OPTIONS",
    "IMMUTABLE_COLLECTIONS",
    "KEY_GROUP",
    "KRYO_2_24",
    "KRYO_5",
    "MAGIC",
    "MAPS",
    "METADATA_FILE_NAME",
    "NESTED_MAGIC",
    "NEWEST_METADATA",
    "NO_COLUMN",
    "OBJECT",
    "OLDEST_METADATA",
    "OPTIONAL_MAP_MAGIC",
    "OUT_OF_RANGE",
    "PRIMITIVES",
    "ROW",
    "ROW_KIND",
    "SOURCE_OFFSETS",
    "STATE_INFO_FILE_NAME",
    "SUBTASK",
    "UNDECODED",
    "WHOLE_MAP",
    "AccessDeniedError",
    "AvroSerializer",
    "BackendStateType",
    "Batch",
    "ClassConstant",
    "ClassFile",
    "ClassMethod",
    "ClassPath",
    "Code",
    "ColumnTree",
    "ComparedState",
    "ComposedSource",
    "ConnectorLayout",
    "ConnectorSource",
    "CorruptDataError",
    "Descriptors",
    "EitherSerializer",
    "Entry",
    "EnumSerializer",
    "FileChangedError",
    "FileSystem",
    "GenericArraySerializer",
    "Hashes",
    "Intrinsic",
    "Jar",
    "JavaObject",
    "JavaType",
    "JobClasses",
    "JobPlan",
    "KeySurvey",
    "KryoInput",
    "KryoReader",
    "KryoRegistration",
    "KryoSerializer",
    "KryoSettings",
    "KryoType",
    "LargeKey",
    "ListSerializer",
    "Listing",
    "Location",
    "MapSerializer",
    "Member",
    "MissingFileError",
    "NotASavepointError",
    "NullableSerializer",
    "OffsetPlace",
    "OpaqueSerializer",
    "Operator",
    "OperatorInfo",
    "OperatorSource",
    "OperatorState",
    "Page",
    "PathOutsideRootError",
    "PojoField",
    "PojoSerializer",
    "Program",
    "ReadCounter",
    "ReaderError",
    "Registrations",
    "RemoteEntry",
    "RemoteFileSystem",
    "ResolvedFile",
    "RowDataSerializer",
    "RowSerializer",
    "Savepoint",
    "SavepointGoneError",
    "SavepointLocation",
    "ScalaCaseClassSerializer",
    "Selection",
    "Serializer",
    "SetSerializer",
    "Source",
    "State",
    "StateInfo",
    "StateKind",
    "StateMetaInfo",
    "StateName",
    "StateObject",
    "StatePart",
    "StateRun",
    "StorageError",
    "StorageOptions",
    "StoredGroup",
    "StoredGroups",
    "StoredHeader",
    "Stream",
    "Tally",
    "TtlSerializer",
    "TupleSerializer",
    "TypeExtractor",
    "TypeInfo",
    "UnreadHandle",
    "UnsupportedSerializerError",
    "UnsupportedStateError",
    "UnsupportedVersionError",
    "ValueOutOfRangeError",
    "VoidNamespaceSerializer",
    "absolute",
    "arrow_filesystem",
    "cache_directory",
    "class_type",
    "combined_hashes",
    "compile_all",
    "compile_log",
    "component_of",
    "composite_program",
    "conform",
    "differing_rows",
    "file_system_of",
    "first_flink",
    "garbage_share",
    "given_location",
    "has_snapshot",
    "instructions",
    "is_keyed",
    "is_within",
    "iso_timestamp",
    "json_text",
    "kernel",
    "key_group_bytes",
    "key_groups_of_subtask",
    "key_texts",
    "kryo_value_reader",
    "load_i2",
    "load_i4",
    "load_i8",
    "load_job_plan",
    "load_le_i2",
    "load_le_i4",
    "load_le_i8",
    "load_machine",
    "load_state_info",
    "load_u1",
    "matching_rows",
    "merged_type",
    "method_signature",
    "missing_units",
    "needed_credentials",
    "offset_places",
    "operator_header_of",
    "operator_id_of",
    "operator_program",
    "orphan_timers",
    "other_rows",
    "read_bounded",
    "read_descriptors",
    "read_job_plan",
    "read_object",
    "read_schema",
    "rebuild",
    "row_hashes",
    "s3_arguments",
    "source_offsets",
    "stack_memory",
    "state_meta_info",
    "store_1",
    "store_2",
    "store_4",
    "store_8",
    "store_be_2",
    "store_be_4",
    "store_be_8",
    "subroutine",
    "survey",
    "target",
    "type_named",
    "update_times",
    "warm",
    "word",
    "write_state_info",
]
