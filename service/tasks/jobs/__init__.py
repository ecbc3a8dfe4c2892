"""Live jobs: what a running Flink says of its jobs and their checkpoints, and savepoints that it takes for us.

In: the addresses of clusters (`--flink`). Out: facts that the catalog learns, the state of each job, and savepoints. Savepoints and
checkpoints are read from the storage as always; without Flink they stay what they are.

    endpoint.py    where a cluster answers: its label, its URL, and what proves us to it
    client.py      one request to its REST API: bounded in time and in size, and never to another host
    document.py    an answer in JSON, checked member by member
    answers.py     the answers that we ask for, as values
    places.py      paths as Flink sees them → paths as we see them
    jobs.py        one look at a cluster: its jobs, their checkpoints, and the names of their operators
    poller.py      looks again and again, in a thread of its own, and lets the catalog learn
    clusters.py    all clusters of a service, and the live state of a job
    savepoint.py   one savepoint: asked for, watched, and found
    triggers.py    all savepoints that clients of a service ask for
"""
