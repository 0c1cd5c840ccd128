#!/bin/sh
# Count what it cost: an estimate is reserved before a call, and what it did cost is committed after
# it. Here tokens of a language model; bytes of a download, milliseconds of a query count alike.
#
#     weir serve --limit 'tokens=token-bucket 1000/1m' &
#     examples/accounts/tokens.sh 7311
#
# The estimate is the context and the longest answer that the call asks for. A call that dies
# without a commit counts as its estimate when its time to live is over.
set -eu
port=${1:-7311}

reserve() { # over RESP: ESTIMATE; the id, or nothing
    redis-cli -p "$port" WEIR.RESERVE tokens alice "$1" TTL 2m | tail -1
}

left() {
    redis-cli -p "$port" WEIR.PEEK tokens alice 0 | sed -n 3p
}

post() { # over HTTP: ROUTE NAME=VALUE...
    route=$1
    shift
    for pair in "$@"; do set -- "$@" --data-urlencode "$pair" && shift; done
    curl -s "http://127.0.0.1:$port/v1/$route" "$@"
}

first=$(reserve 600)
second=$(reserve 600)
echo "two calls at once: ${first:+one passes}, ${second:-one is refused}"
redis-cli -p "$port" WEIR.COMMIT "$first" 150 >/dev/null
echo "the first took 150: $(left) left"
second=$(reserve 600)
redis-cli -p "$port" WEIR.COMMIT "$second" 900 >/dev/null
echo "the second took 900: $(left) left"
third=$(post reserve limit=tokens key=bob cost=600 ttl=2m | sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
echo "over HTTP, bob's call failed: $(post cancel "id=$third")"
echo "and again: $(post cancel "id=$third" | cut -d: -f2)"
