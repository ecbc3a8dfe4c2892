"""Bytes of Flink savepoints → Arrow. Knows Flink; knows no SQL, no HTTP, no table names.

In: the path of a savepoint or checkpoint. Out: its operators and states, and their entries as `pyarrow.RecordBatch`es. This module
is the face of the room: the catalog and the service import from nowhere else in it.

In reading order:

    savepoint.py     Savepoint: `_metadata`, opened
    operators.py     Operator: opens state files and collects their states
    states.py        State and StatePart: schema and rows
    rows.py          entries → rows
    differences.py   two states, compared
    formats/         state files: handle → source → pages of entries
    headers.py       headers of state files: the states and their types
    metainfo.py      one of these states
    snapshots/       serializer snapshots: how the types are recorded
    serializers/     how one value is laid out
    decode/          the machine that turns entries into columns
    compiled/        machine code for its loops, compiled once
    metadata/        the `_metadata` file
    storage/         where files are now, and how they are read
    stateinfo/       the user's JSON file with names and types
    surveys/         one pass over the keys of states
    samples.py        what the first values show of classes that nothing describes
    leftovers.py     all bytes of a savepoint, searched for texts
    description.py   writes such a file
    connectors/      what connectors keep in opaque bytes
    offsets.py       positions of sources, from these
    jars/            class files and jars: what the classes of a job say of its state
    recognition.py   how the files of a savepoint are recognised
    keygroups.py     Java's hashes, key groups, operator ids
    cursor.py        reads numbers and text from bytes, with checks
    javaio.py        Java's object streams
    jsontext.py      columns as JSON text, times as text
    schemas.py       names of columns that hold no value; SQL names of types, and schemas from them
    latenames.py     names of a face, loaded when they are first used
    errors.py        what can go wrong
"""

from typing import TYPE_CHECKING

from readers.latenames import late_names

if TYPE_CHECKING:
    from readers.compiled.kernel import UNITS as COMPILED_UNITS
    from readers.compiled.kernel import compile_all, kernel, missing_units
    from readers.compiled.routines import Intrinsic, subroutine
    from readers.compiled.routines import logger as compile_log
    from readers.connectors.layout import Layout as ConnectorLayout
    from readers.connectors.recognition import ConnectorSource
    from readers.decode import instructions
    from readers.decode.columns import NO_COLUMN, ColumnTree
    from readers.decode.decoder import Batch, Page, load_machine, warm
    from readers.decode.dictionaries import dictionary_schema, with_dictionaries
    from readers.decode.loads import (
        copy_bytes,
        load_i2,
        load_i4,
        load_i8,
        load_le_i2,
        load_le_i4,
        load_le_i8,
        load_u1,
        same_bytes,
        stack_memory,
        store_1,
        store_2,
        store_4,
        store_8,
        store_be_2,
        store_be_4,
        store_be_8,
    )
    from readers.decode.machine.columns import is_within
    from readers.decode.machine.registers import target, word
    from readers.decode.program import Code, Program
    from readers.description import write_state_info
    from readers.differences import (
        ComparedState,
        Hashes,
        combined_hashes,
        differing_rows,
        matching_rows,
        other_rows,
        row_hashes,
    )
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
    from readers.formats.composite import ComposedSource, CompositeSource, composite_program
    from readers.formats.entry import WHOLE_MAP, Entry, StateKind, state_meta_info
    from readers.formats.operatorstate import OperatorSource, operator_header_of, operator_program
    from readers.formats.rawtimers import RawTimerSource
    from readers.formats.rocksdb.sst.words import hash_bytes, shift_right
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
    from readers.headers import OperatorHeader, StoredHeader
    from readers.jars.classfile import ClassFile
    from readers.jars.classpath import ClassPath, Jar
    from readers.jars.declared.reading import Declarations, DeclaredState, read_declarations
    from readers.jars.extractor import TypeExtractor
    from readers.jars.jobclasses import JobClasses
    from readers.jars.pojos import Hierarchy, UnknownTypeError
    from readers.jars.signatures import OBJECT, method_signature, type_of
    from readers.javaio import JavaObject, read_object
    from readers.jsontext import iso_timestamp, json_text
    from readers.keygroups import key_group_bytes, key_group_chunks, key_groups_of_subtask, operator_id_of
    from readers.leftovers import Leftovers, files_of, find_leftovers
    from readers.metadata import OperatorState, StateObject
    from readers.metadata.model import first_flink
    from readers.metadata.reader import NEWEST_VERSION as NEWEST_METADATA
    from readers.metadata.reader import OLDEST_VERSION as OLDEST_METADATA
    from readers.metainfo import BackendStateType, StateMetaInfo
    from readers.offsets import SCHEMA as SOURCE_OFFSETS
    from readers.offsets import OffsetPlace, impossible_offsets, offset_places, offset_problem, source_offsets
    from readers.operators import Operator
    from readers.recognition import MAGIC, STATE_INFO_FILE_NAME
    from readers.rows import conform, is_keyed, merged_type
    from readers.samples import Stages, ValueSample, sample_of
    from readers.savepoint import Savepoint
    from readers.schemas import KEY_GROUP, OUT_OF_RANGE, ROW, SUBTASK, UNDECODED, schema_of, sql_type
    from readers.serializers.avro import AvroSerializer
    from readers.serializers.base import OpaqueSerializer, Serializer, rebuild
    from readers.serializers.containers import (
        EnumSerializer,
        ListSerializer,
        MapSerializer,
        NullableSerializer,
    )
    from readers.serializers.kryo.objects import value_reader as kryo_value_reader
    from readers.serializers.kryo.plain import offset_text
    from readers.serializers.kryo.reader import KryoInput, KryoReader
    from readers.serializers.kryo.serializer import KryoSerializer
    from readers.serializers.kryo.settings import (
        BOXES,
        COLLECTIONS,
        IMMUTABLE_COLLECTIONS,
        KRYO_2_24,
        KRYO_5,
        MAPS,
        PRIMITIVES,
        KryoRegistration,
        KryoSettings,
        KryoType,
        component_of,
    )
    from readers.serializers.named import name_of as type_text
    from readers.serializers.named import type_named
    from readers.serializers.operators import TtlSerializer
    from readers.serializers.pojo import CLASS, PojoField, PojoSerializer
    from readers.serializers.primitives import VoidNamespaceSerializer
    from readers.serializers.protobuf import Descriptors, read_descriptors
    from readers.serializers.scala import ScalaCaseClassSerializer
    from readers.serializers.structs import ROW_KIND, ROW_KINDS, RowSerializer, TupleSerializer
    from readers.serializers.table.rowdata import ExternalSerializer, RowDataSerializer
    from readers.snapshots.reading import COMPOSITE_MAGIC, NESTED_MAGIC, OPTIONAL_MAP_MAGIC, has_snapshot
    from readers.stateinfo.file import OperatorInfo, StateInfo, TypeInfo, load_state_info, read_bounded
    from readers.stateinfo.plans import JobPlan, load_job_plan, read_job_plan
    from readers.states import State, StatePart, UnreadHandle
    from readers.storage.filesystems import (
        FileSystem,
        Listing,
        Location,
        ReadCounter,
        Stream,
        absolute,
        check_lost_pages,
        survive_lost_pages,
        take_lost_pages,
    )
    from readers.storage.location import (
        DEFAULT_OPTIONS,
        METADATA_FILE_NAME,
        KnownFiles,
        ResolvedFile,
        SavepointLocation,
        StorageOptions,
        file_system_of,
        given_location,
    )
    from readers.storage.remote import RemoteEntry, RemoteFileSystem
    from readers.storage.schemes import arrow_filesystem, needed_credentials, s3_arguments
    from readers.storage.temporary import TemporaryFolder, cache_directory
    from readers.surveys.survey import (
        KeySurvey,
        LargeKey,
        garbage_share,
        has_one_entry_a_key,
        key_texts,
        orphan_timers,
        survey,
        update_times,
    )

# A type checker would take every name for one of the room.
if not TYPE_CHECKING:
    __getattr__, __all__ = late_names(globals())
