#!/bin/sh
# Only failures count: five wrong passwords of an account in ten minutes, and any number of right
# ones.
#
#     weir serve --limit 'logins=sliding-log 5/10m' &
#     examples/accounts/login.sh 7311
#
# Each attempt reserves one, so that a burst of guesses cannot pass all at once; a right password
# gives it back, a wrong one commits it. If the program dies in between, the attempt counts (LAPSE
# keep).
set -eu
port=${1:-7311}

reserve() { # over RESP: the id, or nothing
    redis-cli -p "$port" WEIR.RESERVE logins "$1" 1 TTL 30s | tail -1
}

post() { # over HTTP: ROUTE NAME=VALUE...
    route=$1
    shift
    for pair in "$@"; do set -- "$@" --data-urlencode "$pair" && shift; done
    curl -s "http://127.0.0.1:$port/v1/$route" "$@"
}

login() { # ACCOUNT right|wrong, over RESP
    id=$(reserve "$1")
    if [ -z "$id" ]; then
        echo "$1: refused"
    elif [ "$2" = right ]; then
        redis-cli -p "$port" WEIR.CANCEL "$id" >/dev/null
        echo "$1: welcome"
    else
        redis-cli -p "$port" WEIR.COMMIT "$id" 1 >/dev/null
        echo "$1: wrong password"
    fi
}

logins() { # ACCOUNT right|wrong...
    account=$1
    shift
    for attempt in "$@"; do login "$account" "$attempt"; done | sort | uniq -c
}

logins alice right right right right right right right
logins mallory wrong wrong wrong wrong wrong right wrong

id=$(post reserve limit=logins key=bob cost=1 ttl=30s | sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
echo "over HTTP, bob: $(post cancel "id=$id")"
reason=$(post reserve limit=logins key=mallory cost=1 ttl=30s)
echo "mallory: $(echo "$reason" | sed 's/.*"reason":"\([A-Z]*\)".*/\1/')"
