#!/bin/sh
# start.sh <flink version> <directory> <rest port> <rpc port> [setting ...]
# Starts a JobManager and a TaskManager, each a process, and waits up to 60 s for both. The directory gets conf/, logs/, checkpoints/,
# savepoints/ and the file pids. A setting is a line of Flink's config.yaml: 'state.backend.type: rocksdb'.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${1:?usage: start.sh <flink version> <directory> <rest port> <rpc port> [setting ...]}
mkdir -p "$2"
directory=$(cd "$2" && pwd)
rest=$3
rpc=$4
shift 4
mkdir -p "$directory/conf" "$directory/logs" "$directory/checkpoints" "$directory/savepoints"
{
    cat <<CONF
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: $rpc
jobmanager.bind-host: 127.0.0.1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: $rest
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 4
taskmanager.cpu.cores: 1.0
taskmanager.memory.task.heap.size: 64m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.framework.heap.size: 64m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.network.min: 16m
taskmanager.memory.network.max: 16m
taskmanager.memory.managed.size: 64m
taskmanager.memory.jvm-metaspace.size: 128m
taskmanager.memory.jvm-overhead.min: 64m
taskmanager.memory.jvm-overhead.max: 64m
io.tmp.dirs: $directory/tmp
execution.checkpointing.interval: 1 s
execution.checkpointing.dir: file://$directory/checkpoints
execution.checkpointing.savepoint-dir: file://$directory/savepoints
execution.checkpointing.num-retained: 10
execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
restart-strategy.type: none
CONF
    for setting in "$@"; do echo "$setting"; done
} >"$directory/conf/config.yaml"
mkdir -p "$directory/tmp"
[ -s "$here/target/$version/classpath" ] || "$here/build.sh" "$version" >&2
: >"$directory/pids"
"$here/java.sh" "$version" org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint \
    --configDir "$directory/conf" >"$directory/logs/jobmanager" 2>&1 </dev/null &
echo $! >>"$directory/pids"
"$here/java.sh" "$version" org.apache.flink.runtime.taskexecutor.TaskManagerRunner \
    --configDir "$directory/conf" >"$directory/logs/taskmanager" 2>&1 </dev/null &
echo $! >>"$directory/pids"
waited=0
until curl --silent --fail --max-time 2 "http://127.0.0.1:$rest/overview" 2>/dev/null | grep -q '"slots-available":4'; do
    waited=$((waited + 1))
    for pid in $(cat "$directory/pids"); do
        if [ "$waited" -gt 120 ] || ! kill -0 "$pid" 2>/dev/null; then
            "$here/stop.sh" "$directory"
            echo "the cluster did not start; its logs:" >&2
            tail -n 40 "$directory/logs/jobmanager" "$directory/logs/taskmanager" >&2
            exit 1
        fi
    done
    sleep 0.5
done
