#!/bin/sh
# Writes the savepoints of `savepointdb demo` with real Flink: demo.sh [archive]
#
# The job `orders` takes five checkpoints, five minutes apart as far as files tell, and a savepoint. Its third checkpoint is the first
# with a wrong total, of customer-42; before the fifth its source jumps over 120 records of partition 3. The word count is that of the
# fixtures. Needs Java 17, Maven and xz.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
archive=${1:-$here/../../../service/doors/cli/demo.tar.xz}
# Flink writes this path into the checkpoints: it says nothing about the machine, and is gone afterwards.
work=/tmp/savepointdb-demo
mkdir "$work"
trap 'rm -rf "$work"' EXIT
"$here/run.sh" 2.3.0 hashmap orders --emit 100 --rounds 5 --conf jump=5,3,120 --checkpoint-dir "$work/orders" \
    --savepoint canonical --to "$work/savepoints"
rm -rf "$work"/orders/*/shared "$work"/orders/*/taskowned
mv "$work"/savepoints/savepoint-* "$work/orders/"
mkdir -p "$work/wordcount"
cp -r "$here/../../data/flink/2.3.0/wordcount-rocksdb-savepoints/native" "$work/wordcount/savepoint"
for number in 1 2 3 4 5; do
    find "$work"/orders/*/"chk-$number" -exec touch -d "2026-11-02T03:0${number}:00Z" {} +
done
find "$work"/orders/savepoint-* "$work/wordcount" -exec touch -d "2026-11-02T03:10:00Z" {} +
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$work" -cf - orders wordcount | xz -9e >"$archive"
