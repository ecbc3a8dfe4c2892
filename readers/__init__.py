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
    samples/         what the first values show of classes that nothing describes
    description.py   writes such a file
    connectors/      what connectors keep in opaque bytes
    outlines.py      what decides on the states of a savepoint, as a digest
    outlining.py     the same from the bytes of `_metadata`, for lists of thousands of savepoints
    offsets.py       positions of sources, from these
    jars/            class files and jars: what the classes of a job say of its state
    columnnames.py   names of columns that hold no value
    recognition.py   how the files of a savepoint are recognised
    lostpages.py     memory maps of files that became shorter
    keygroups.py     Java's hashes, key groups, operator ids
    cursor.py        reads numbers and text from bytes, with checks
    javaio.py        Java's object streams
    jsontext.py      columns as JSON text
    timetext.py      times as text
    latenames.py     names of a face, loaded when they are first used
    failures.py      failures that no check foresees, as typed errors
    errors.py        what can go wrong
"""

from typing import TYPE_CHECKING

from readers.latenames import late_names

if TYPE_CHECKING:
    from readers.columnnames import KEY_GROUP, OUT_OF_RANGE, ROW, SUBTASK, UNDECODED
    from readers.compiled.ahead import UNITS as COMPILED_UNITS
    from readers.compiled.ahead import compile_all, missing_units
    from readers.compiled.kernel import kernel
    from readers.compiled.routines import Intrinsic, subroutine
    from readers.compiled.routines import logger as compile_log
    from readers.connectors.layout import Layout as ConnectorLayout
    from readers.connectors.source import ConnectorSource
    from readers.decode import instructions
    from readers.decode.columns import NO_COLUMN, ColumnTree
    from readers.decode.decoder import Batch, load_machine, warm
    from readers.decode.dictionaries import dictionary_schema, with_dictionaries
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
        ReaderFailureError,
        SavepointGoneError,
        StorageError,
        UnsupportedSerializerError,
        UnsupportedStateError,
        UnsupportedVersionError,
        ValueOutOfRangeError,
        without_folders,
    )
    from readers.formats.composite.layout import composite_program
    from readers.formats.composite.source import ComposedSource
    from readers.formats.entry import WHOLE_MAP, Entry, StateKind, state_meta_info
    from readers.formats.operatorstate.layout import operator_program
    from readers.formats.operatorstate.source import OperatorSource, operator_header_of
    from readers.formats.source import (
        Selection,
        Source,
        StateName,
        StateRun,
        StateSize,
        StoredGroup,
        StoredGroups,
        Tally,
    )
    from readers.headers.keyed import StoredHeader
    from readers.headers.metainfo import BackendStateType, StateMetaInfo
    from readers.jars.classfiles.classfile import ClassFile
    from readers.jars.classfiles.classpath import ClassPath
    from readers.jars.classfiles.jar import Jar
    from readers.jars.classfiles.signatures import OBJECT, method_signature, type_of
    from readers.jars.declared.reading import Declarations, DeclaredState, read_declarations
    from readers.jars.extraction.extractor import TypeExtractor
    from readers.jars.extraction.hierarchy import Hierarchy
    from readers.jars.jobclasses.jobclasses import JobClasses
    from readers.javaio import JavaObject, read_object
    from readers.jsontext import iso_timestamp, json_text
    from readers.keygroups import key_group_bytes, key_group_chunks, key_groups_of_subtask, operator_id_of
    from readers.lostpages import check_lost_pages, survive_lost_pages, take_lost_pages
    from readers.metadata import OperatorState, StateObject
    from readers.metadata.model import first_flink
    from readers.metadata.reader import NEWEST_VERSION as NEWEST_METADATA
    from readers.metadata.reader import OLDEST_VERSION as OLDEST_METADATA
    from readers.offsets import SCHEMA as SOURCE_OFFSETS
    from readers.offsets import OffsetPlace, impossible_offsets, offset_places, offset_problem, source_offsets
    from readers.operators import Operator
    from readers.outlining import quick_outline
    from readers.recognition import MAGIC, STATE_INFO_FILE_NAME
    from readers.rows import conform, is_keyed, merged_type
    from readers.samples.sample import ValueSample, sample_of
    from readers.samples.stages import Stages
    from readers.savepoint import Savepoint
    from readers.serializers.avro import AvroSerializer
    from readers.serializers.base import OpaqueSerializer, Serializer, rebuild
    from readers.serializers.containers import (
        EnumSerializer,
        ListSerializer,
        MapSerializer,
        NullableSerializer,
    )
    from readers.serializers.kryo.classes import BOXES, COLLECTIONS, IMMUTABLE_COLLECTIONS, MAPS, PRIMITIVES
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
    from readers.serializers.named import type_named
    from readers.serializers.operators import TtlSerializer
    from readers.serializers.pojo import CLASS, PojoField, PojoSerializer
    from readers.serializers.primitives import VoidNamespaceSerializer
    from readers.serializers.protobuf.descriptors import Descriptors, read_descriptors
    from readers.serializers.scala import ScalaCaseClassSerializer
    from readers.serializers.table.rowdata import ExternalSerializer, RowDataSerializer
    from readers.serializers.tuples import ROW_KIND, RowSerializer, TupleSerializer
    from readers.snapshots.reading import COMPOSITE_MAGIC, NESTED_MAGIC, OPTIONAL_MAP_MAGIC
    from readers.snapshots.registry import has_snapshot
    from readers.stateinfo.file import OperatorInfo, StateInfo, TypeInfo, load_state_info, read_bounded
    from readers.stateinfo.plans import JobPlan, load_job_plan, read_job_plan
    from readers.states import State, StatePart, UnreadHandle
    from readers.storage.cachefolder import cache_directory
    from readers.storage.filesystems import FileSystem, Listing, absolute
    from readers.storage.knownfiles import KnownFiles
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
    from readers.storage.temporary import TemporaryFolder
    from readers.surveys.orphans import orphan_timers
    from readers.surveys.survey import KeySurvey, LargeKey, garbage_share, key_texts, survey, update_times

__all__ = [
    "BOXES",
    "CLASS",
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
    "ClassFile",
    "ClassPath",
    "Code",
    "ColumnTree",
    "ComparedState",
    "ComposedSource",
    "ConnectorLayout",
    "ConnectorSource",
    "CorruptDataError",
    "Declarations",
    "DeclaredState",
    "Descriptors",
    "Entry",
    "EnumSerializer",
    "ExternalSerializer",
    "FileChangedError",
    "FileSystem",
    "Hashes",
    "Hierarchy",
    "Intrinsic",
    "Jar",
    "JavaObject",
    "JobClasses",
    "JobPlan",
    "KeySurvey",
    "KnownFiles",
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
    "ReaderFailureError",
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
    "Source",
    "Stages",
    "State",
    "StateInfo",
    "StateKind",
    "StateMetaInfo",
    "StateName",
    "StateObject",
    "StatePart",
    "StateRun",
    "StateSize",
    "StorageError",
    "StorageOptions",
    "StoredGroup",
    "StoredGroups",
    "StoredHeader",
    "Stream",
    "Tally",
    "TemporaryFolder",
    "TtlSerializer",
    "TupleSerializer",
    "TypeExtractor",
    "TypeInfo",
    "UnreadHandle",
    "UnsupportedSerializerError",
    "UnsupportedStateError",
    "UnsupportedVersionError",
    "ValueOutOfRangeError",
    "ValueSample",
    "VoidNamespaceSerializer",
    "absolute",
    "arrow_filesystem",
    "cache_directory",
    "check_lost_pages",
    "combined_hashes",
    "compile_all",
    "compile_log",
    "component_of",
    "composite_program",
    "conform",
    "dictionary_schema",
    "differing_rows",
    "file_system_of",
    "first_flink",
    "garbage_share",
    "given_location",
    "has_snapshot",
    "impossible_offsets",
    "instructions",
    "is_keyed",
    "is_within",
    "iso_timestamp",
    "json_text",
    "kernel",
    "key_group_bytes",
    "key_group_chunks",
    "key_groups_of_subtask",
    "key_texts",
    "kryo_value_reader",
    "late_names",
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
    "offset_problem",
    "operator_header_of",
    "operator_id_of",
    "operator_program",
    "orphan_timers",
    "other_rows",
    "quick_outline",
    "read_bounded",
    "read_declarations",
    "read_descriptors",
    "read_job_plan",
    "read_object",
    "rebuild",
    "row_hashes",
    "s3_arguments",
    "sample_of",
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
    "survive_lost_pages",
    "take_lost_pages",
    "target",
    "type_named",
    "type_of",
    "update_times",
    "warm",
    "with_dictionaries",
    "without_folders",
    "word",
    "write_state_info",
]

_HOMES = {
    "AccessDeniedError": "readers.errors:AccessDeniedError",
    "AvroSerializer": "readers.serializers.avro:AvroSerializer",
    "BOXES": "readers.serializers.kryo.classes:BOXES",
    "BackendStateType": "readers.headers.metainfo:BackendStateType",
    "Batch": "readers.decode.decoder:Batch",
    "CLASS": "readers.serializers.pojo:CLASS",
    "COLLECTIONS": "readers.serializers.kryo.classes:COLLECTIONS",
    "COMPILED_UNITS": "readers.compiled.ahead:UNITS",
    "COMPOSITE_MAGIC": "readers.snapshots.reading:COMPOSITE_MAGIC",
    "ClassFile": "readers.jars.classfiles.classfile:ClassFile",
    "ClassPath": "readers.jars.classfiles.classpath:ClassPath",
    "Code": "readers.decode.program:Code",
    "ColumnTree": "readers.decode.columns:ColumnTree",
    "ComparedState": "readers.differences.states:ComparedState",
    "ComposedSource": "readers.formats.composite.source:ComposedSource",
    "ConnectorLayout": "readers.connectors.layout:Layout",
    "ConnectorSource": "readers.connectors.source:ConnectorSource",
    "CorruptDataError": "readers.errors:CorruptDataError",
    "DEFAULT_OPTIONS": "readers.storage.location:DEFAULT_OPTIONS",
    "Declarations": "readers.jars.declared.reading:Declarations",
    "DeclaredState": "readers.jars.declared.reading:DeclaredState",
    "Descriptors": "readers.serializers.protobuf.descriptors:Descriptors",
    "Entry": "readers.formats.entry:Entry",
    "EnumSerializer": "readers.serializers.containers:EnumSerializer",
    "ExternalSerializer": "readers.serializers.table.rowdata:ExternalSerializer",
    "FileChangedError": "readers.errors:FileChangedError",
    "FileSystem": "readers.storage.filesystems:FileSystem",
    "Hashes": "readers.differences.hashes:Hashes",
    "Hierarchy": "readers.jars.extraction.hierarchy:Hierarchy",
    "IMMUTABLE_COLLECTIONS": "readers.serializers.kryo.classes:IMMUTABLE_COLLECTIONS",
    "Intrinsic": "readers.compiled.routines:Intrinsic",
    "Jar": "readers.jars.classfiles.jar:Jar",
    "JavaObject": "readers.javaio:JavaObject",
    "JobClasses": "readers.jars.jobclasses.jobclasses:JobClasses",
    "JobPlan": "readers.stateinfo.plans:JobPlan",
    "KEY_GROUP": "readers.columnnames:KEY_GROUP",
    "KRYO_2_24": "readers.serializers.kryo.settings:KRYO_2_24",
    "KRYO_5": "readers.serializers.kryo.settings:KRYO_5",
    "KeySurvey": "readers.surveys.survey:KeySurvey",
    "KnownFiles": "readers.storage.knownfiles:KnownFiles",
    "KryoInput": "readers.serializers.kryo.input:KryoInput",
    "KryoReader": "readers.serializers.kryo.reader:KryoReader",
    "KryoRegistration": "readers.serializers.kryo.settings:KryoRegistration",
    "KryoSerializer": "readers.serializers.kryo.serializer:KryoSerializer",
    "KryoSettings": "readers.serializers.kryo.settings:KryoSettings",
    "KryoType": "readers.serializers.kryo.settings:KryoType",
    "LargeKey": "readers.surveys.survey:LargeKey",
    "ListSerializer": "readers.serializers.containers:ListSerializer",
    "Listing": "readers.storage.filesystems:Listing",
    "Location": "readers.storage.location:Location",
    "MAGIC": "readers.recognition:MAGIC",
    "MAPS": "readers.serializers.kryo.classes:MAPS",
    "METADATA_FILE_NAME": "readers.storage.location:METADATA_FILE_NAME",
    "MapSerializer": "readers.serializers.containers:MapSerializer",
    "MissingFileError": "readers.errors:MissingFileError",
    "NESTED_MAGIC": "readers.snapshots.reading:NESTED_MAGIC",
    "NEWEST_METADATA": "readers.metadata.reader:NEWEST_VERSION",
    "NO_COLUMN": "readers.decode.columns:NO_COLUMN",
    "NotASavepointError": "readers.errors:NotASavepointError",
    "NullableSerializer": "readers.serializers.containers:NullableSerializer",
    "OBJECT": "readers.jars.classfiles.signatures:OBJECT",
    "OLDEST_METADATA": "readers.metadata.reader:OLDEST_VERSION",
    "OPTIONAL_MAP_MAGIC": "readers.snapshots.reading:OPTIONAL_MAP_MAGIC",
    "OUT_OF_RANGE": "readers.columnnames:OUT_OF_RANGE",
    "OffsetPlace": "readers.offsets:OffsetPlace",
    "OpaqueSerializer": "readers.serializers.base:OpaqueSerializer",
    "Operator": "readers.operators:Operator",
    "OperatorInfo": "readers.stateinfo.file:OperatorInfo",
    "OperatorSource": "readers.formats.operatorstate.source:OperatorSource",
    "OperatorState": "readers.metadata:OperatorState",
    "PRIMITIVES": "readers.serializers.kryo.classes:PRIMITIVES",
    "Page": "readers.decode.page:Page",
    "PathOutsideRootError": "readers.errors:PathOutsideRootError",
    "PojoField": "readers.serializers.pojo:PojoField",
    "PojoSerializer": "readers.serializers.pojo:PojoSerializer",
    "Program": "readers.decode.program:Program",
    "ROW": "readers.columnnames:ROW",
    "ROW_KIND": "readers.serializers.tuples:ROW_KIND",
    "ReadCounter": "readers.storage.location:ReadCounter",
    "ReaderError": "readers.errors:ReaderError",
    "ReaderFailureError": "readers.errors:ReaderFailureError",
    "RemoteEntry": "readers.storage.remote:RemoteEntry",
    "RemoteFileSystem": "readers.storage.remote:RemoteFileSystem",
    "ResolvedFile": "readers.storage.location:ResolvedFile",
    "RowDataSerializer": "readers.serializers.table.rowdata:RowDataSerializer",
    "RowSerializer": "readers.serializers.tuples:RowSerializer",
    "SOURCE_OFFSETS": "readers.offsets:SCHEMA",
    "STATE_INFO_FILE_NAME": "readers.recognition:STATE_INFO_FILE_NAME",
    "SUBTASK": "readers.columnnames:SUBTASK",
    "Savepoint": "readers.savepoint:Savepoint",
    "SavepointGoneError": "readers.errors:SavepointGoneError",
    "SavepointLocation": "readers.storage.location:SavepointLocation",
    "ScalaCaseClassSerializer": "readers.serializers.scala:ScalaCaseClassSerializer",
    "Selection": "readers.formats.source:Selection",
    "Serializer": "readers.serializers.base:Serializer",
    "Source": "readers.formats.source:Source",
    "Stages": "readers.samples.stages:Stages",
    "State": "readers.states:State",
    "StateInfo": "readers.stateinfo.file:StateInfo",
    "StateKind": "readers.formats.entry:StateKind",
    "StateMetaInfo": "readers.headers.metainfo:StateMetaInfo",
    "StateName": "readers.formats.source:StateName",
    "StateObject": "readers.metadata:StateObject",
    "StatePart": "readers.states:StatePart",
    "StateRun": "readers.formats.source:StateRun",
    "StateSize": "readers.formats.source:StateSize",
    "StorageError": "readers.errors:StorageError",
    "StorageOptions": "readers.storage.location:StorageOptions",
    "StoredGroup": "readers.formats.source:StoredGroup",
    "StoredGroups": "readers.formats.source:StoredGroups",
    "StoredHeader": "readers.headers.keyed:StoredHeader",
    "Stream": "readers.storage.location:Stream",
    "Tally": "readers.formats.source:Tally",
    "TemporaryFolder": "readers.storage.temporary:TemporaryFolder",
    "TtlSerializer": "readers.serializers.operators:TtlSerializer",
    "TupleSerializer": "readers.serializers.tuples:TupleSerializer",
    "TypeExtractor": "readers.jars.extraction.extractor:TypeExtractor",
    "TypeInfo": "readers.stateinfo.file:TypeInfo",
    "UNDECODED": "readers.columnnames:UNDECODED",
    "UnreadHandle": "readers.states:UnreadHandle",
    "UnsupportedSerializerError": "readers.errors:UnsupportedSerializerError",
    "UnsupportedStateError": "readers.errors:UnsupportedStateError",
    "UnsupportedVersionError": "readers.errors:UnsupportedVersionError",
    "ValueOutOfRangeError": "readers.errors:ValueOutOfRangeError",
    "ValueSample": "readers.samples.sample:ValueSample",
    "VoidNamespaceSerializer": "readers.serializers.primitives:VoidNamespaceSerializer",
    "WHOLE_MAP": "readers.formats.entry:WHOLE_MAP",
    "absolute": "readers.storage.filesystems:absolute",
    "arrow_filesystem": "readers.storage.schemes:arrow_filesystem",
    "cache_directory": "readers.storage.cachefolder:cache_directory",
    "check_lost_pages": "readers.lostpages:check_lost_pages",
    "combined_hashes": "readers.differences.hashes:combined_hashes",
    "compile_all": "readers.compiled.ahead:compile_all",
    "compile_log": "readers.compiled.routines:logger",
    "component_of": "readers.serializers.kryo.settings:component_of",
    "composite_program": "readers.formats.composite.layout:composite_program",
    "conform": "readers.rows:conform",
    "dictionary_schema": "readers.decode.dictionaries:dictionary_schema",
    "differing_rows": "readers.differences.states:differing_rows",
    "file_system_of": "readers.storage.location:file_system_of",
    "first_flink": "readers.metadata.model:first_flink",
    "garbage_share": "readers.surveys.survey:garbage_share",
    "given_location": "readers.storage.location:given_location",
    "has_snapshot": "readers.snapshots.registry:has_snapshot",
    "impossible_offsets": "readers.offsets:impossible_offsets",
    "instructions": "readers.decode.instructions",
    "is_keyed": "readers.rows:is_keyed",
    "is_within": "readers.decode.machine.decimals:is_within",
    "iso_timestamp": "readers.jsontext:iso_timestamp",
    "json_text": "readers.jsontext:json_text",
    "kernel": "readers.compiled.kernel:kernel",
    "key_group_bytes": "readers.keygroups:key_group_bytes",
    "key_group_chunks": "readers.keygroups:key_group_chunks",
    "key_groups_of_subtask": "readers.keygroups:key_groups_of_subtask",
    "key_texts": "readers.surveys.survey:key_texts",
    "kryo_value_reader": "readers.serializers.kryo.objects:value_reader",
    "load_i2": "readers.decode.loads:load_i2",
    "load_i4": "readers.decode.loads:load_i4",
    "load_i8": "readers.decode.loads:load_i8",
    "load_job_plan": "readers.stateinfo.plans:load_job_plan",
    "load_le_i2": "readers.decode.loads:load_le_i2",
    "load_le_i4": "readers.decode.loads:load_le_i4",
    "load_le_i8": "readers.decode.loads:load_le_i8",
    "load_machine": "readers.decode.decoder:load_machine",
    "load_state_info": "readers.stateinfo.file:load_state_info",
    "load_u1": "readers.decode.loads:load_u1",
    "matching_rows": "readers.differences.matching:matching_rows",
    "merged_type": "readers.rows:merged_type",
    "method_signature": "readers.jars.classfiles.signatures:method_signature",
    "missing_units": "readers.compiled.ahead:missing_units",
    "needed_credentials": "readers.storage.schemes:needed_credentials",
    "offset_places": "readers.offsets:offset_places",
    "offset_problem": "readers.offsets:offset_problem",
    "operator_header_of": "readers.formats.operatorstate.source:operator_header_of",
    "operator_id_of": "readers.keygroups:operator_id_of",
    "operator_program": "readers.formats.operatorstate.layout:operator_program",
    "orphan_timers": "readers.surveys.orphans:orphan_timers",
    "other_rows": "readers.differences.matching:other_rows",
    "quick_outline": "readers.outlining:quick_outline",
    "read_bounded": "readers.stateinfo.file:read_bounded",
    "read_declarations": "readers.jars.declared.reading:read_declarations",
    "read_descriptors": "readers.serializers.protobuf.descriptors:read_descriptors",
    "read_job_plan": "readers.stateinfo.plans:read_job_plan",
    "read_object": "readers.javaio:read_object",
    "rebuild": "readers.serializers.base:rebuild",
    "row_hashes": "readers.differences.hashes:row_hashes",
    "s3_arguments": "readers.storage.schemes:s3_arguments",
    "sample_of": "readers.samples.sample:sample_of",
    "source_offsets": "readers.offsets:source_offsets",
    "stack_memory": "readers.decode.loads:stack_memory",
    "state_meta_info": "readers.formats.entry:state_meta_info",
    "store_1": "readers.decode.loads:store_1",
    "store_2": "readers.decode.loads:store_2",
    "store_4": "readers.decode.loads:store_4",
    "store_8": "readers.decode.loads:store_8",
    "store_be_2": "readers.decode.loads:store_be_2",
    "store_be_4": "readers.decode.loads:store_be_4",
    "store_be_8": "readers.decode.loads:store_be_8",
    "subroutine": "readers.compiled.routines:subroutine",
    "survey": "readers.surveys.survey:survey",
    "survive_lost_pages": "readers.lostpages:survive_lost_pages",
    "take_lost_pages": "readers.lostpages:take_lost_pages",
    "target": "readers.decode.machine.code:target",
    "type_named": "readers.serializers.named:type_named",
    "type_of": "readers.jars.classfiles.signatures:type_of",
    "update_times": "readers.surveys.survey:update_times",
    "warm": "readers.decode.decoder:warm",
    "with_dictionaries": "readers.decode.dictionaries:with_dictionaries",
    "without_folders": "readers.errors:without_folders",
    "word": "readers.decode.machine.code:word",
    "write_state_info": "readers.description:write_state_info",
}
"""Name → its module, and its name there; a name without one is a module itself."""

# A type checker would take every name for one of the room.
if not TYPE_CHECKING:
    __getattr__ = late_names(globals(), _HOMES)
