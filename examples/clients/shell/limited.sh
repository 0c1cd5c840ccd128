#!/bin/sh
# Runs a command if its limit grants: limited.sh LIMIT KEY COMMAND [ARGUMENT...]. If it refuses, the
# exit status is 75 (try again later). Without weir the command runs, unless CLOSED=1.
limit=$1 key=$2
shift 2
port=${WEIR_PORT:-7311}

# The first word of six is whether it is granted, the fourth the milliseconds to wait.
answer=$(timeout 0.5 redis-cli -p "$port" WEIR.TAKE "$limit" "$key" 2>/dev/null) || answer=
case $(echo "$answer" | sed -n 1p) in
1) exec "$@" ;;
0) echo "limited: wait $(echo "$answer" | sed -n 4p) ms" >&2; exit 75 ;;
ERR*) echo "limited: $answer" >&2; exit 2 ;;
*) [ -z "$CLOSED" ] || exit 75; exec "$@" ;;
esac
