#!/bin/sh
# At most two devices of an account at once: a session enters when it begins and exits when it ends.
#
#     weir serve --limit 'devices=concurrency 2 lease=12h' &
#     examples/devices/devices.sh 7311
#
# The lease is the longest session. A device that vanishes without an exit keeps its place until
# then; over RESP it loses it with its connection, if it says CONN.
set -eu
port=${1:-7311}

enter() { # over RESP: the ticket, or nothing
    redis-cli -p "$port" WEIR.ENTER devices "$1" | tail -1
}

post() { # over HTTP: ROUTE NAME=VALUE...
    route=$1
    shift
    for pair in "$@"; do set -- "$@" --data-urlencode "$pair" && shift; done
    curl -s -w '%{http_code}\n' "http://127.0.0.1:$port/v1/$route" "$@"
}

phone=$(enter alice)
laptop=$(enter alice)
television=$(enter alice)
echo "phone: ${phone:+in}, laptop: ${laptop:+in}, television: ${television:-refused}"

echo "the phone leaves: $(redis-cli -p "$port" WEIR.EXIT "$phone")"
television=$(enter alice)
echo "television: ${television:+in}"
echo "the phone leaves again: $(redis-cli -p "$port" WEIR.EXIT "$phone" 2>&1 | cut -d: -f1)"

echo "over HTTP, tablet: $(post enter limit=devices key=alice | tail -1)"
echo "the laptop leaves: $(post exit "ticket=$laptop")"
tablet=$(post enter limit=devices key=alice | sed -n 's/.*"ticket":"\([^"]*\)".*/\1/p')
echo "tablet: ${tablet:+in}"
echo "bob is another account: $(post enter limit=devices key=bob | tail -1)"
