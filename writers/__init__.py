"""Arrow → bytes of Flink savepoints: the inverse of the readers. Knows Flink, by the readers' declarations; knows no SQL.

In: rows of columns and the serializers that the readers found in a savepoint, or edits of a savepoint. Out: the bytes that Flink
would write, or a new savepoint. This module is the face of the room: the catalog and the service import from nowhere else in it.

    errors.py      what can go wrong
    encode/        rows → entries, by the same programs that decode them
    warnings.py    what Flink restores without a word
    kernels.py     the modules that have compiled code
    output.py      big-endian bytes, as Java writes them
    metadata/      a `SavepointMetadata` → the bytes of `_metadata`
    snapshots.py   types → serializer snapshots
    headers.py     registered states → the headers of state files
    hashes.py      keys → Java's hash codes, key groups
    identities.py  columns → which rows are equal
    changes.py     what statements change in the rows of a state, in layers
    alteration.py  what happens to a state as a whole
    kryo/          objects of Kryo 2, written anew for Flink 2
    conversion.py  columns of one type → columns of another
    evolution.py   types of values that change, with the values
    operatorheaders.py  states of operator state that go, become empty, or get other names
    operatorstate/  changed rows of list, union and broadcast states
    target.py      the directory of a new savepoint
    stores/        new savepoints in object stores
    places.py      a path or URL → the one or the other
    deferred.py    state that is made while the savepoint is written
    edits.py       what changes in a savepoint
    keyed/         an operator's keyed state, written anew
    creation/      states that no job has written
    elsewhere/     keyed state that other processes make
    files.py       the files of the source that it takes over
    savepoint.py   source, edits and files → a new savepoint
"""

from typing import TYPE_CHECKING

from readers import late_names

if TYPE_CHECKING:
    from readers import ROW
    from writers.alteration import StateAlteration
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
    from writers.creation.edits import MOST_KEY_GROUPS, CreateOperator, ExtendOperatorState
    from writers.creation.elements import CollectedElements
    from writers.creation.empty import write_empty_savepoint
    from writers.creation.spool import SpooledEntries
    from writers.creation.states import NewState, kind_named
    from writers.creation.types import named_after, type_of_column
    from writers.creation.verification import check_created
    from writers.edits import DropOperator, Edit, ForFlink, RenameOperator, WithNewerFlink
    from writers.elsewhere.making import Run
    from writers.elsewhere.parcels import done, parcel_of, result_of
    from writers.encode.encoder import Encoded, Encoder
    from writers.encode.equality import comparable_numbers
    from writers.encode.fitting import fitted, shown
    from writers.encode.primitives import NullField, null_fields
    from writers.errors import (
        RefusedEditError,
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
        TypeChange,
    )
    from writers.files import FilesMode
    from writers.hashes import key_groups_of
    from writers.identities import differing
    from writers.kernels import COMPILED_UNITS
    from writers.keyed.rewrite import RewriteKeyedState, merged_edits
    from writers.keyed.trial import try_types
    from writers.kryo.targets import holds_older_objects, needed_type
    from writers.metadata import NEWEST_VERSION as NEWEST_WRITTEN_METADATA
    from writers.metadata import OLDEST_VERSION as OLDEST_WRITTEN_METADATA
    from writers.operatorheaders import AlterOperatorStates
    from writers.operatorstate.connectors import is_of_sink
    from writers.operatorstate.offsets import SetOffsets
    from writers.operatorstate.rewrite import RewriteOperatorState
    from writers.places import store_of
    from writers.savepoint import SavepointWriter, Summary
    from writers.stores.requests import StoreRequests
    from writers.stores.store import Store
    from writers.target import UNFINISHED, remove_unfinished
    from writers.warnings import RestoreWarning

__all__ = [
    "COMPILED_UNITS",
    "FIRST_ADDED",
    "GROUP",
    "MOST_KEY_GROUPS",
    "NEWEST_WRITTEN_METADATA",
    "OLDEST_WRITTEN_METADATA",
    "ROW",
    "UNFINISHED",
    "AddedField",
    "AddedRows",
    "AlterOperatorStates",
    "CollectedElements",
    "CreateOperator",
    "DropOperator",
    "DroppedField",
    "Edit",
    "Encoded",
    "Encoder",
    "ExpiringValue",
    "ExtendOperatorState",
    "FilesMode",
    "ForFlink",
    "GroupChanges",
    "NewState",
    "NullField",
    "RefusedEditError",
    "RemovedRows",
    "RenameOperator",
    "RenamedField",
    "RestoreWarning",
    "RetypedField",
    "RewriteKeyedState",
    "RewriteOperatorState",
    "Run",
    "SavepointWriter",
    "SetOffsets",
    "Spool",
    "SpooledEntries",
    "StateAlteration",
    "StateChanges",
    "Store",
    "StoreRequests",
    "Summary",
    "TargetError",
    "TargetExistsError",
    "TypeChange",
    "UnencodableTypeError",
    "UnencodableValueError",
    "UnwritableError",
    "UpdatedRows",
    "WithNewerFlink",
    "WriterError",
    "check_created",
    "comparable_numbers",
    "differing",
    "done",
    "fitted",
    "holds_older_objects",
    "is_of_sink",
    "key_groups_of",
    "kind_named",
    "merged_edits",
    "named_after",
    "needed_type",
    "null_fields",
    "parcel_of",
    "remove_unfinished",
    "result_of",
    "shown",
    "store_of",
    "try_types",
    "type_of_column",
    "write_empty_savepoint",
]

_HOMES = {
    "AddedField": "writers.evolution:AddedField",
    "AddedRows": "writers.changes:AddedRows",
    "AlterOperatorStates": "writers.operatorheaders:AlterOperatorStates",
    "COMPILED_UNITS": "writers.kernels:COMPILED_UNITS",
    "CollectedElements": "writers.creation.elements:CollectedElements",
    "CreateOperator": "writers.creation.edits:CreateOperator",
    "DropOperator": "writers.edits:DropOperator",
    "DroppedField": "writers.evolution:DroppedField",
    "Edit": "writers.edits:Edit",
    "Encoded": "writers.encode.encoder:Encoded",
    "Encoder": "writers.encode.encoder:Encoder",
    "ExpiringValue": "writers.evolution:ExpiringValue",
    "ExtendOperatorState": "writers.creation.edits:ExtendOperatorState",
    "FIRST_ADDED": "writers.changes:FIRST_ADDED",
    "FilesMode": "writers.files:FilesMode",
    "ForFlink": "writers.edits:ForFlink",
    "GROUP": "writers.changes:GROUP",
    "GroupChanges": "writers.changes:GroupChanges",
    "MOST_KEY_GROUPS": "writers.creation.edits:MOST_KEY_GROUPS",
    "NEWEST_WRITTEN_METADATA": "writers.metadata:NEWEST_VERSION",
    "NewState": "writers.creation.states:NewState",
    "OLDEST_WRITTEN_METADATA": "writers.metadata:OLDEST_VERSION",
    "ROW": "readers:ROW",
    "RefusedEditError": "writers.errors:RefusedEditError",
    "RemovedRows": "writers.changes:RemovedRows",
    "RenameOperator": "writers.edits:RenameOperator",
    "RenamedField": "writers.evolution:RenamedField",
    "RetypedField": "writers.evolution:RetypedField",
    "RewriteKeyedState": "writers.keyed.rewrite:RewriteKeyedState",
    "RewriteOperatorState": "writers.operatorstate.rewrite:RewriteOperatorState",
    "Run": "writers.elsewhere.making:Run",
    "SavepointWriter": "writers.savepoint:SavepointWriter",
    "SetOffsets": "writers.operatorstate.offsets:SetOffsets",
    "Spool": "writers.changes:Spool",
    "SpooledEntries": "writers.creation.spool:SpooledEntries",
    "StateAlteration": "writers.alteration:StateAlteration",
    "StateChanges": "writers.changes:StateChanges",
    "Summary": "writers.savepoint:Summary",
    "TargetError": "writers.errors:TargetError",
    "TargetExistsError": "writers.errors:TargetExistsError",
    "TypeChange": "writers.evolution:TypeChange",
    "UNFINISHED": "writers.target:UNFINISHED",
    "UnencodableTypeError": "writers.errors:UnencodableTypeError",
    "UnencodableValueError": "writers.errors:UnencodableValueError",
    "UnwritableError": "writers.errors:UnwritableError",
    "UpdatedRows": "writers.changes:UpdatedRows",
    "WithNewerFlink": "writers.edits:WithNewerFlink",
    "WriterError": "writers.errors:WriterError",
    "check_created": "writers.creation.verification:check_created",
    "comparable_numbers": "writers.encode.equality:comparable_numbers",
    "differing": "writers.identities:differing",
    "done": "writers.elsewhere.parcels:done",
    "Store": "writers.stores.store:Store",
    "StoreRequests": "writers.stores.requests:StoreRequests",
    "parcel_of": "writers.elsewhere.parcels:parcel_of",
    "result_of": "writers.elsewhere.parcels:result_of",
    "store_of": "writers.places:store_of",
    "fitted": "writers.encode.fitting:fitted",
    "shown": "writers.encode.fitting:shown",
    "holds_older_objects": "writers.kryo.targets:holds_older_objects",
    "is_of_sink": "writers.operatorstate.connectors:is_of_sink",
    "key_groups_of": "writers.hashes:key_groups_of",
    "kind_named": "writers.creation.states:kind_named",
    "merged_edits": "writers.keyed.rewrite:merged_edits",
    "NullField": "writers.encode.primitives:NullField",
    "RestoreWarning": "writers.warnings:RestoreWarning",
    "null_fields": "writers.encode.primitives:null_fields",
    "named_after": "writers.creation.types:named_after",
    "needed_type": "writers.kryo.targets:needed_type",
    "remove_unfinished": "writers.target:remove_unfinished",
    "try_types": "writers.keyed.trial:try_types",
    "type_of_column": "writers.creation.types:type_of_column",
    "write_empty_savepoint": "writers.creation.empty:write_empty_savepoint",
}
"""Name → its module, and its name there; a name without one is a module itself."""

# A type checker would take every name for one of the room.
if not TYPE_CHECKING:
    __getattr__ = late_names(globals(), _HOMES)
