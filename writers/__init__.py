"""Arrow → bytes of Flink savepoints: the inverse of the readers. Knows Flink, by the readers' declarations; knows no SQL.

In: rows of columns and the serializers that the readers found in a savepoint, or edits of a savepoint. Out: the bytes that Flink
would write, or a new savepoint. This module is the face of the room: the catalog and the service import from nowhere else in it.

    errors.py      what can go wrong, and what Flink restores without a word
    kernels.py     the modules that have compiled code
    encode/        rows → entries, by the same programs that decode them
    headers.py     registered states and their types → the headers of state files
    metadata.py    a `SavepointMetadata` → the bytes of `_metadata`
    hashes.py      keys → Java's hash codes, key groups
    changes.py     what statements change in the rows of a state, in layers
    kryo/          objects of Kryo 2, written anew for Flink 2
    evolution.py   types of values that change, with the values; columns of one type → columns of another
    target.py      the directory of a new savepoint
    stores/        new savepoints in object stores
    edits.py       what changes in a savepoint, what is made while it is written, and the files of the source that it takes over
    operatorstate/ changed rows of list, union and broadcast states
    keyed/         an operator's keyed state, written anew
    copies.py      an operator of another savepoint, as it is
    creation/      states that no job has written
    elsewhere.py   keyed state that other processes make
    savepoint.py   source, edits and files → a new savepoint
"""

from typing import TYPE_CHECKING

from readers import late_names

if TYPE_CHECKING:
    from readers import ROW
    from writers.changes import (
        FIRST_ADDED,
        GROUP,
        AddedRows,
        GroupChanges,
        RemovedRows,
        Spool,
        StateChanges,
        UpdatedRows,
    )
    from writers.copies import TakeOperator, check_objects
    from writers.creation.likeness import carry, state_like
    from writers.creation.operators import (
        CollectedElements,
        CreateOperator,
        ExtendOperatorState,
        check_created,
        write_empty_savepoint,
    )
    from writers.creation.spool import SpooledEntries
    from writers.creation.states import NewState, kind_named, named_after, type_of_column
    from writers.edits import (
        DropOperator,
        Edit,
        FilesMode,
        ForFlink,
        RenameOperator,
        WithNewerFlink,
        newest_version,
    )
    from writers.elsewhere import Run, done, parcel_of, result_of
    from writers.encode.encoder import Encoded, Encoder
    from writers.encode.fitting import NullField, comparable, differing, fitted, null_fields, shown
    from writers.errors import (
        RefusedEditError,
        RestoreWarning,
        TargetError,
        TargetExistsError,
        UnencodableTypeError,
        UnencodableValueError,
        UnwritableError,
        WriterError,
    )
    from writers.evolution import (
        AddedField,
        DroppedField,
        ExpiringValue,
        RenamedField,
        RetypedField,
        StateAlteration,
        TypeChange,
        replaces_values,
    )
    from writers.hashes import key_groups_of
    from writers.headers import write_snapshot
    from writers.kernels import COMPILED_UNITS
    from writers.keyed.carry import try_types
    from writers.keyed.masking import RowMask, masked_changes, row_schema
    from writers.keyed.resharding import MOST_KEY_GROUPS
    from writers.keyed.rewrite import RewriteKeyedState, merged_edits
    from writers.keyed.sampling import FractionOfKeys, KeyChoice, KeyFilter, ListedKeys, texts_of
    from writers.kryo.upgrade import holds_older_objects, needed_type
    from writers.metadata import NEWEST_VERSION as NEWEST_WRITTEN_METADATA
    from writers.metadata import OLDEST_VERSION as OLDEST_WRITTEN_METADATA
    from writers.operatorstate.connectors import is_of_sink
    from writers.operatorstate.rewrite import (
        AlterOperatorStates,
        GatherOperatorState,
        RewriteOperatorState,
        SetOffsets,
    )
    from writers.savepoint import SavepointWriter, Summary
    from writers.stores.clients import store_of
    from writers.stores.store import Store, StoreRequests
    from writers.target import UNFINISHED, remove_unfinished

# A type checker would take every name for one of the room.
if not TYPE_CHECKING:
    __getattr__, __all__ = late_names(globals())
