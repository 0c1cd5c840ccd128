#!/bin/sh
# One take with curl: sh take.sh LIMIT KEY. Exit status: 0 granted, 1 refused, 2 wrong, 3 no answer.
weir=${WEIR:-http://127.0.0.1:7311}

answer=$(curl -s --max-time 0.5 -w '\n%{http_code}' "$weir/v1/take" \
    --data-urlencode "limit=$1" --data-urlencode "key=$2")
case ${answer##*
} in
200) exit 0 ;;
429) exit 1 ;;
000) exit 3 ;;
*) echo "$answer" >&2; exit 2 ;;
esac
