#!/bin/sh
# stop.sh <directory>: ends the processes of start.sh; within 10 s, then by force
set -eu
pids=$(cat "${1:?usage: stop.sh <directory>}/pids" 2>/dev/null) || exit 0
for pid in $pids; do kill "$pid" 2>/dev/null || true; done
for pid in $pids; do
    waited=0
    while kill -0 "$pid" 2>/dev/null; do
        waited=$((waited + 1))
        if [ "$waited" -gt 50 ]; then kill -9 "$pid" 2>/dev/null || true; fi
        sleep 0.2
    done
done
rm -f "$1/pids"
