"""Live jobs: what a running Flink says of its jobs and their checkpoints, and savepoints that it takes for us.

In: the addresses of clusters (`--flink`). Out: facts that the catalog learns, the state of each job, and savepoints. Savepoints and
checkpoints are read from the storage as always; without Flink they stay what they are.

    client.py      where a cluster answers; one request to its REST API: bounded in time and in size, and never to another host
    answers.py     the answers that we ask for, checked member by member, as values
    jobs.py        one look at a cluster: its jobs, their checkpoints, and the names of their operators; paths of Flink → ours
    clusters.py    all clusters of a service, each looked at again and again; the catalog learns; the live state of a job
    savepoint.py   one savepoint: asked for, watched, and found
    triggers.py    all savepoints that clients of a service ask for
"""
