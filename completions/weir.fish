# Completion of weir for fish. Put it in a directory of $fish_complete_path.
#
# A limit is one argument, so it is completed as a whole: the text so far, and what may follow.
# Made by scripts/cli_docs.py: change src/cli/*_options.c or the template *.in instead.

function __weir_options_of
    switch $argv[1]
        case fixed-window
            printf '%s\n' \
                align=first align=clock tz= anchor= count-denied shadow fallback=local \
                fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny \
                full=allow
        case sliding-window
            printf '%s\n' \
                slots= per-slot= per-slot=none per-slot=even count-denied shadow fallback=local \
                fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny \
                full=allow
        case sliding-counter min-interval
            printf '%s\n' \
                count-denied shadow fallback=local fallback=allow fallback=deny warn= block= \
                after= keys= full=evict full=deny full=allow
        case sliding-log
            printf '%s\n' \
                min-interval= count-denied shadow fallback=local fallback=allow fallback=deny \
                warn= block= after= keys= full=evict full=deny full=allow
        case token-bucket
            printf '%s\n' \
                burst= initial= initial=full initial=empty count-denied shadow fallback=local \
                fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny \
                full=allow
        case leaky-bucket
            printf '%s\n' \
                capacity= delay= delay=none count-denied shadow fallback=local fallback=allow \
                fallback=deny warn= block= after= keys= full=evict full=deny full=allow
        case pacer
            printf '%s\n' \
                slack= queue= max-wait= max-wait=forever count-denied shadow fallback=local \
                fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny \
                full=allow
        case smooth-bursty
            printf '%s\n' \
                max-burst= count-denied shadow fallback=local fallback=allow fallback=deny warn= \
                block= after= keys= full=evict full=deny full=allow
        case smooth-warmup
            printf '%s\n' \
                warmup= cold= count-denied shadow fallback=local fallback=allow fallback=deny \
                warn= block= after= keys= full=evict full=deny full=allow
        case unlimited 0/s
            printf '%s\n' \
                count-denied shadow fallback=local fallback=allow fallback=deny warn= keys= \
                full=evict full=deny full=allow
        case concurrency
            printf '%s\n' \
                queue= max-wait= max-wait=forever lease= lease=none shadow fallback=local \
                fallback=allow fallback=deny keys= full=evict full=deny full=allow
        case system
            printf '%s\n' \
                cpu= cpu=none load= load=none memory= memory=none pressure= pressure=none rt= \
                rt=none inflight= inflight=none rate= rate=none shadow fallback=local \
                fallback=allow fallback=deny keys= full=evict full=deny full=allow
        case breaker
            printf '%s\n' \
                preset=none preset=hystrix preset=resilience4j preset=sentinel preset=sre \
                errors= errors=none slow= slow=none count= count=none volume= window= buckets= \
                open= open-max= growth= probes= probe-timeout= forced=none forced=open \
                forced=closed forced=metrics shadow fallback=local fallback=allow fallback=deny \
                keys= full=evict full=deny full=allow
        case bbr
            printf '%s\n' \
                cpu= cpu=none memory= memory=none load= load=none window= buckets= cooling= \
                shadow fallback=local fallback=allow fallback=deny keys= full=evict full=deny \
                full=allow
        case vegas gradient
            printf '%s\n' \
                min= max= initial= shadow fallback=local fallback=allow fallback=deny keys= \
                full=evict full=deny full=allow
        case aimd
            printf '%s\n' \
                min= max= initial= timeout= shadow fallback=local fallback=allow fallback=deny \
                keys= full=evict full=deny full=allow
        case adaptive-rate
            printf '%s\n' \
                min= max= target= target=none errors= burst= count-denied shadow fallback=local \
                fallback=allow fallback=deny keys= full=evict full=deny full=allow
    end
end

# The text of the argument at the cursor, without its quote.
function __weir_text
    commandline -ct | string replace -r '^[\'"]' '' | string replace -a '\\ ' ' '
end

function __weir_limit
    set -l text (__weir_text)
    set -l head (string match -r '^.* \+ ' -- "$text")
    set -l term (string replace -r '^.* \+ ' '' -- "$text")
    set -l words (string split ' ' -- "$term")
    if test (count $words) -lt 2
        printf '%s\t%s\n' \
            "$head"fixed-window\  'a counter that restarts with each window' \
            "$head"sliding-window\  'a ring of counters' \
            "$head"sliding-counter\  'this window, and the last one by its overlap' \
            "$head"sliding-log\  'the times of the last events; exact' \
            "$head"token-bucket\  'refills at the rate, keeps a burst' \
            "$head"leaky-bucket\  'leaks at the rate; with a delay, a queue' \
            "$head"pacer\  'turns at a constant pace' \
            "$head"smooth-bursty\  'the next caller pays' \
            "$head"smooth-warmup\  'a slow start after a rest' \
            "$head"min-interval\  'at least this long between events' \
            "$head"unlimited\  'grants everything' \
            "$head"0/s\  'refuses everything' \
            "$head"concurrency\  'at most N calls at once' \
            "$head"system\  'a gate for the whole process' \
            "$head"breaker\  'stops calls that fail' \
            "$head"bbr\  'sheds calls that would only queue, while the machine is overloaded' \
            "$head"vegas\  'a limit that follows the queue' \
            "$head"gradient\  'a limit that follows latency' \
            "$head"aimd\  'a limit that rises until calls fail' \
            "$head"adaptive-rate\  'a rate that follows latency and errors'
        return
    end
    set -l algorithm $words[1]
    if string match -q '*/*' -- $algorithm
        set algorithm token-bucket
    else if test (count $words) -lt 3; and not contains -- $algorithm unlimited 0/s system breaker bbr vegas gradient aimd
        return # the count and the period
    end
    set -l before (string replace -r '[^ ]*$' '' -- "$text")
    for option in (__weir_options_of $algorithm)
        printf '%s\n' "$before$option"
    end
end

function __weir_traffic
    set -l text (__weir_text)
    set -l before (string replace -r '[^ ;]*$' '' -- "$text")
    if string match -qr '(^|;) *[^ ;]*$' -- "$text"
        printf '%s\t%s\n' "$before"steady\  'RATE LENGTH' "$before"ramp\  'FROM..RATE LENGTH' \
            "$before"poisson\  'RATE LENGTH [seed=N]' "$before"burst\  'N at TIME' \
            "$before"pause\  'LENGTH' "$before"service\  'TIME [workers=N]'
    else
        printf '%s\n' "$before"key= "$before"keys= "$before"cost= "$before"seed= \
            "$before"workers= "$before"errors= "$before"queue= "$before"timeout= "$before"jitter=
    end
end

# The words before the cursor, without weir, options and the values of options.
function __weir_said
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch $word
            case --admin-listen --attr --cacert --client-header --clock --columns --config \
                    --connection-part --cost --denied-status --drain --format --full --header \
                    --headers --host --idle --ip --ipv6-prefix --keep --key --limit --listen \
                    --literal-state --literals --log-format --log-level --log-to --max-buffered \
                    --max-clients --max-connections --max-delayed --max-key --max-keys \
                    --max-line --max-memory --max-output --max-policies --max-request \
                    --max-tickets --max-wait --metrics-listen --no-answer-status --out --over \
                    --peer-part --rate --refuse --request --server --socket-group --socket-mode \
                    --start --status --store --svg --threads --time --time-format --timeout \
                    --tls-ca --tls-cert --tls-clients --tls-key --token-file --token-part \
                    --tokens --top --traffic --trust --trust-hops --ttl --wait --width
                set value yes
            case '-?*'
            case '*'
                echo -- $word
        end
    end
end

# COMMAND...: do these words begin with the command's?
function __weir_words
    set -l said (__weir_said)
    string match -q -- "$argv *" "$said "
end

# N COMMAND...: do exactly N arguments follow the command?
function __weir_after
    test (count (__weir_said)) -eq (math $argv[1] + (count $argv) - 1); and __weir_words $argv[2..]
end

complete -c weir -f
complete -c weir -n '__weir_after 0' -a demo -d 'Play a tour of two minutes'
complete -c weir -n '__weir_after 0' -a sim -d 'Run a script of events, or made-up traffic, against a limit'
complete -c weir -n '__weir_after 0' -a replay -d 'Run a log through limits'
complete -c weir -n '__weir_after 0' -a advise -d 'Which limit fits a log?'
complete -c weir -n '__weir_after 0' -a explain -d 'Say in plain words what a limit will do'
complete -c weir -n '__weir_after 0' -a serve -d 'Decide limits for other programs'
complete -c weir -n '__weir_after 0' -a check -d 'Check a configuration file, and say what it means'
complete -c weir -n '__weir_after 0' -a take -d 'Take from a limit, once'
complete -c weir -n '__weir_after 0' -a run -d 'Run a command when its turn comes'
complete -c weir -n '__weir_after 0' -a pace -d 'Pass lines at a rate'
complete -c weir -n '__weir_after 0' -a peek -d 'Ask a server what a take would be answered'
complete -c weir -n '__weir_after 0' -a charge -d 'Charge a key on a server without asking'
complete -c weir -n '__weir_after 0' -a reserve -d 'Take an estimate on a server, to be settled later'
complete -c weir -n '__weir_after 0' -a commit -d 'Settle a reservation on a server'
complete -c weir -n '__weir_after 0' -a cancel -d 'Give a reservation on a server back'
complete -c weir -n '__weir_after 0' -a enter -d 'Enter a limit with guards on a server'
complete -c weir -n '__weir_after 0' -a exit -d 'End a ticket on a server'
complete -c weir -n '__weir_after 0' -a refund -d 'Give back on a server what was taken'
complete -c weir -n '__weir_after 0' -a reset -d 'Make a key on a server fresh'
complete -c weir -n '__weir_after 0' -a limit -d 'Show and change the limits of a server'
complete -c weir -n '__weir_after 0' -a override -d 'Show and change the limits of single keys on a server'
complete -c weir -n '__weir_after 0' -a list -d 'Keys that a limit of a server always allows or denies'
complete -c weir -n '__weir_after 0' -a stats -d 'Show the counters of a server'
complete -c weir -n '__weir_after 0' -a ping -d 'Ask whether a server answers'
complete -c weir -n '__weir_after 0' -a reload -d 'Have a server read its configuration file again'
complete -c weir -n '__weir_after 0' -a store -d 'Inspect, convert or reset a file that processes share'
complete -c weir -n '__weir_after 0' -a version -d 'Print the version'
complete -c weir -n '__weir_after 0' -a help -d 'Print this help, or the help of a command or a topic'
complete -c weir -n '__weir_after 0' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0' -l version -d 'Print the version'
complete -c weir -n '__weir_words demo' -l no-pause -d 'Do not wait for a key between steps'
complete -c weir -n '__weir_words demo' -l log -d 'Print the log that the tour reads, and play nothing'
complete -c weir -n '__weir_words demo' -l help -d 'Print the help'
complete -c weir -n '__weir_words sim' -l json -d 'Print one JSON object a line in place of tab-separated fields'
complete -c weir -n '__weir_words sim' -l start -x -d 'When the clock starts and the limit is made'
complete -c weir -n '__weir_words sim' -l max-keys -x -d 'Live keys that the simulated store has room for'
complete -c weir -n '__weir_words sim' -l traffic -x -a '(__weir_traffic)' -d 'Make the events from this text instead of reading a script'
complete -c weir -n '__weir_words sim' -l script -d 'Print the script that --traffic makes, and run nothing'
complete -c weir -n '__weir_words sim' -l rows -d 'Print a row for each stretch of time instead of a line for each event'
complete -c weir -n '__weir_words sim' -l chart -d 'Draw a chart'
complete -c weir -n '__weir_words sim' -l svg -r -F -d 'Write the chart as SVG to this file'
complete -c weir -n '__weir_words sim' -l width -x -d 'Columns of the chart'
complete -c weir -n '__weir_words sim' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 sim' -a '(__weir_limit)'
complete -c weir -n '__weir_after 0 sim' -F
complete -c weir -n '__weir_after 1 sim' -F
complete -c weir -n '__weir_words replay' -l format -x -a 'auto common combined vhost json logfmt csv tsv' -d 'Auto (by the first lines)'
complete -c weir -n '__weir_words replay' -l columns -x -d 'The columns of a table (csv'
complete -c weir -n '__weir_words replay' -l key -x -d 'Who asks'
complete -c weir -n '__weir_words replay' -l time -x -d 'The column of the time, or a text with columns in braces'
complete -c weir -n '__weir_words replay' -l time-format -x -a 'auto s ms us ns iso clf' -d 'How times are written'
complete -c weir -n '__weir_words replay' -l cost -x -d 'What a request costs'
complete -c weir -n '__weir_words replay' -l status -x -d 'The column of the status'
complete -c weir -n '__weir_words replay' -l max-clients -x -d 'How many clients there is memory for'
complete -c weir -n '__weir_words replay' -l compare -d 'Print one table with a line for each limit'
complete -c weir -n '__weir_words replay' -l top -x -d 'How many of the clients that are refused most are listed'
complete -c weir -n '__weir_words replay' -l json -d 'Print one JSON object instead'
complete -c weir -n '__weir_words replay' -l chart -d 'Draw a chart'
complete -c weir -n '__weir_words replay' -l svg -r -F -d 'Write the chart as SVG to this file'
complete -c weir -n '__weir_words replay' -l width -x -d 'Columns of the chart'
complete -c weir -n '__weir_words replay' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 replay' -F
complete -c weir -n '__weir_after 1 replay' -a '(__weir_limit)'
complete -c weir -n '__weir_words advise' -l format -x -a 'auto common combined vhost json logfmt csv tsv' -d 'Auto (by the first lines)'
complete -c weir -n '__weir_words advise' -l columns -x -d 'The columns of a table (csv'
complete -c weir -n '__weir_words advise' -l key -x -d 'Who asks'
complete -c weir -n '__weir_words advise' -l time -x -d 'The column of the time, or a text with columns in braces'
complete -c weir -n '__weir_words advise' -l time-format -x -a 'auto s ms us ns iso clf' -d 'How times are written'
complete -c weir -n '__weir_words advise' -l cost -x -d 'What a request costs'
complete -c weir -n '__weir_words advise' -l status -x -d 'The column of the status'
complete -c weir -n '__weir_words advise' -l max-clients -x -d 'How many clients there is memory for'
complete -c weir -n '__weir_words advise' -l refuse -x -d 'The share of clients that may ever be refused'
complete -c weir -n '__weir_words advise' -l over -x -d 'Of the limits that keep within the share'
complete -c weir -n '__weir_words advise' -l rate -x -d 'Look at this rate instead of a ladder from 6/h to 10000/s'
complete -c weir -n '__weir_words advise' -l json -d 'Print one JSON object instead'
complete -c weir -n '__weir_words advise' -l chart -d 'Draw a chart'
complete -c weir -n '__weir_words advise' -l svg -r -F -d 'Write the chart as SVG to this file'
complete -c weir -n '__weir_words advise' -l width -x -d 'Columns of the chart'
complete -c weir -n '__weir_words advise' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 advise' -F
complete -c weir -n '__weir_words explain' -l json -d 'Print the same as one JSON object'
complete -c weir -n '__weir_words explain' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 explain' -a '(__weir_limit)'
complete -c weir -n '__weir_words serve' -l config -r -F -d 'Configuration file'
complete -c weir -n '__weir_words serve' -l listen -x -d 'Address that accepts connections'
complete -c weir -n '__weir_words serve' -l admin-listen -x -d 'Address that accepts connections and is for administration'
complete -c weir -n '__weir_words serve' -l metrics-listen -x -d 'Address that accepts connections and is for watching only'
complete -c weir -n '__weir_words serve' -l tokens -r -F -d 'File with the tokens of clients, one a line'
complete -c weir -n '__weir_words serve' -l keep -r -F -d 'File in which the daemon keeps the limits'
complete -c weir -n '__weir_words serve' -l insecure -d 'Accept connections from other machines without tokens'
complete -c weir -n '__weir_words serve' -l tls-cert -r -F -d 'Certificate in PEM, with those between it and the authority behind it'
complete -c weir -n '__weir_words serve' -l tls-key -r -F -d 'Private key of the certificate in PEM, without a passphrase'
complete -c weir -n '__weir_words serve' -l tls-ca -r -F -d 'Authorities in PEM that sign the certificates of clients'
complete -c weir -n '__weir_words serve' -l tls-clients -x -a 'required optional' -d 'Whether a client needs a certificate of --tls-ca'
complete -c weir -n '__weir_words serve' -l socket-mode -x -a '0660 0600 0666' -d 'Permissions of Unix sockets'
complete -c weir -n '__weir_words serve' -l socket-group -x -d 'Group of Unix sockets, such as that of a proxy\'s user (www-data)'
complete -c weir -n '__weir_words serve' -l limit -x -d 'Limit that requests call NAME'
complete -c weir -n '__weir_words serve' -l store -x -a 'memory: file:/ redis:// redis+unix:/' -d 'Store of the keys'
complete -c weir -n '__weir_words serve' -l max-keys -x -d 'Live keys that each store has room for'
complete -c weir -n '__weir_words serve' -l full -x -a 'evict deny allow' -d 'What a new key gets when a store is full of live keys'
complete -c weir -n '__weir_words serve' -l threads -x -d 'Worker threads'
complete -c weir -n '__weir_words serve' -l max-connections -x -d 'Open connections'
complete -c weir -n '__weir_words serve' -l max-request -x -d 'Size of one command or HTTP request'
complete -c weir -n '__weir_words serve' -l max-key -x -d 'Size of a key'
complete -c weir -n '__weir_words serve' -l max-output -x -d 'Replies that one client has not read yet'
complete -c weir -n '__weir_words serve' -l max-buffered -x -d 'Memory for the buffers of all connections'
complete -c weir -n '__weir_words serve' -l max-delayed -x -d 'Most delayed (WAIT or wait=) replies of all connections together'
complete -c weir -n '__weir_words serve' -l max-tickets -x -d 'Most open tickets (WEIR.ENTER) of all clients together'
complete -c weir -n '__weir_words serve' -l connection-part -x -a '1/16 1' -d 'Part of --max-buffered'
complete -c weir -n '__weir_words serve' -l peer-part -x -a '1/4 1' -d 'Part of --max-buffered'
complete -c weir -n '__weir_words serve' -l token-part -x -a '1/4 1' -d 'Part of --max-buffered'
complete -c weir -n '__weir_words serve' -l max-memory -x -d 'Memory for all stores and connections'
complete -c weir -n '__weir_words serve' -l max-wait -x -a '1h forever' -d 'Longest time that a request may wait, or reserve ahead'
complete -c weir -n '__weir_words serve' -l idle -x -d 'Time after which a silent connection is closed'
complete -c weir -n '__weir_words serve' -l drain -x -d 'Time that SIGTERM leaves for delayed replies'
complete -c weir -n '__weir_words serve' -l literals -x -a 'on off' -d 'Whether a request may carry the text of a limit in place of a name'
complete -c weir -n '__weir_words serve' -l literal-state -x -d 'State that one key of such a limit may take'
complete -c weir -n '__weir_words serve' -l no-admin -d 'Clients may only take and look'
complete -c weir -n '__weir_words serve' -l host -x -d 'Name that HTTP requests may have as Host'
complete -c weir -n '__weir_words serve' -l trust -x -a 'loopback,unix none' -d 'Proxies whose header fields name a client for /v1/auth'
complete -c weir -n '__weir_words serve' -l trust-hops -x -d 'Number of proxies between clients and the daemon'
complete -c weir -n '__weir_words serve' -l client-header -x -a 'X-Forwarded-For Forwarded X-Real-IP X-Weir-Key' -d 'The only header field that names a client for /v1/auth'
complete -c weir -n '__weir_words serve' -l ipv6-prefix -x -d 'Leading bits of an IPv6 address that identify one client for /v1/auth'
complete -c weir -n '__weir_words serve' -l headers -x -a 'draft draft,x draft-6 x x-rate none epoch jitter=10%' -d 'Fields of HTTP replies that describe limits'
complete -c weir -n '__weir_words serve' -l core-dumps -d 'A crash may leave a core file, and debuggers of the same user may attach'
complete -c weir -n '__weir_words serve' -l log-level -x -a 'info warning error' -d 'Lines below this level are not logged'
complete -c weir -n '__weir_words serve' -l log-format -x -a 'logfmt json' -d 'Form of a line of the log'
complete -c weir -n '__weir_words serve' -l log-to -x -a 'stderr syslog' -d 'Where the log goes'
complete -c weir -n '__weir_words serve' -l clock -x -a 'system manual' -d 'Clock of the daemon'
complete -c weir -n '__weir_words serve' -l help -d 'Print the help'
complete -c weir -n '__weir_words check' -l json -d 'Print the result as one JSON object, mistakes included'
complete -c weir -n '__weir_words check' -l request -x -d 'Say what the rules of the file do with this request'
complete -c weir -n '__weir_words check' -l header -x -d 'A header field of that request'
complete -c weir -n '__weir_words check' -l ip -x -d 'The client\'s address'
complete -c weir -n '__weir_words check' -l attr -x -d 'An attribute of that request'
complete -c weir -n '__weir_words check' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 check' -F
complete -c weir -n '__weir_words take' -l store -x -a 'memory: file:/ redis:// redis+unix:/' -d 'Decide here, on this store, and ask no server'
complete -c weir -n '__weir_words take' -l limit -x -d 'With --store'
complete -c weir -n '__weir_words take' -l no-fallback -d 'Give no answer (status 3) if the store does not answer'
complete -c weir -n '__weir_words take' -l max-keys -x -d 'With --store'
complete -c weir -n '__weir_words take' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words take' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words take' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words take' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words take' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words take' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words take' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 take' -a '(__weir_limit)'
complete -c weir -n '__weir_words take; and not __weir_after 0 take; and not __weir_after 1 take' -a 'cost= wait= wait=forever numbers='
complete -c weir -n '__weir_words run' -l limit -x -a '(__weir_limit)' -d 'Name of a limit, or its text in quotes'
complete -c weir -n '__weir_words run' -l key -x -d 'Key to count the command under'
complete -c weir -n '__weir_words run' -l cost -x -d 'How much to take, or how many permits'
complete -c weir -n '__weir_words run' -l wait -x -a 'forever' -d 'Wait for the turn for at most this long, or forever'
complete -c weir -n '__weir_words run' -l ttl -x -d 'Of a server\'s limit with guards'
complete -c weir -n '__weir_words run' -l store -x -a 'memory: file:/ redis:// redis+unix:/' -d 'Decide here, on this store, and ask no server'
complete -c weir -n '__weir_words run' -l denied-status -x -d 'Exit status if the turn is denied'
complete -c weir -n '__weir_words run' -l no-answer-status -x -d 'Exit status if there is no answer'
complete -c weir -n '__weir_words run' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words run' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words run' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words run' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words run' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words run' -l json -d 'Print a denial as one JSON object, on standard error'
complete -c weir -n '__weir_words run' -l help -d 'Print the help'
complete -c weir -n '__weir_words pace' -l bytes -d 'A line costs as many as it has bytes, its end included'
complete -c weir -n '__weir_words pace' -l max-line -x -d 'The longest line, its end included'
complete -c weir -n '__weir_words pace' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 pace' -a '(__weir_limit)'
complete -c weir -n '__weir_words peek' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words peek' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words peek' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words peek' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words peek' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words peek' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words peek' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 peek' -a '(__weir_limit)'
complete -c weir -n '__weir_words peek; and not __weir_after 0 peek; and not __weir_after 1 peek' -a 'cost= numbers='
complete -c weir -n '__weir_words charge' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words charge' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words charge' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words charge' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words charge' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words charge' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words charge' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 charge' -a '(__weir_limit)'
complete -c weir -n '__weir_words reserve' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words reserve' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words reserve' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words reserve' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words reserve' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words reserve' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words reserve' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 reserve' -a '(__weir_limit)'
complete -c weir -n '__weir_words reserve; and not __weir_after 0 reserve; and not __weir_after 1 reserve; and not __weir_after 2 reserve' -a 'ttl= lapse= lapse=keep lapse=free'
complete -c weir -n '__weir_words commit' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words commit' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words commit' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words commit' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words commit' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words commit' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words commit' -l help -d 'Print the help'
complete -c weir -n '__weir_words cancel' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words cancel' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words cancel' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words cancel' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words cancel' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words cancel' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words cancel' -l help -d 'Print the help'
complete -c weir -n '__weir_words enter' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words enter' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words enter' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words enter' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words enter' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words enter' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words enter' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 enter' -a '(__weir_limit)'
complete -c weir -n '__weir_words enter; and not __weir_after 0 enter; and not __weir_after 1 enter' -a 'cost= wait= wait=forever ttl='
complete -c weir -n '__weir_words exit' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words exit' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words exit' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words exit' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words exit' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words exit' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words exit' -l help -d 'Print the help'
complete -c weir -n '__weir_after 1 exit' -a 'ok error drop ignore'
complete -c weir -n '__weir_words exit; and not __weir_after 0 exit; and not __weir_after 1 exit' -a 'took='
complete -c weir -n '__weir_words refund' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words refund' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words refund' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words refund' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words refund' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words refund' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words refund' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 refund' -a '(__weir_limit)'
complete -c weir -n '__weir_words refund; and not __weir_after 0 refund; and not __weir_after 1 refund' -a 'cost='
complete -c weir -n '__weir_words reset' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words reset' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words reset' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words reset' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words reset' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words reset' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words reset' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 reset' -a '(__weir_limit)'
complete -c weir -n '__weir_after 0 limit' -a set -d 'Set a named limit'
complete -c weir -n '__weir_after 0 limit' -a get -d 'Show a named limit'
complete -c weir -n '__weir_after 0 limit' -a list -d 'List the named limits'
complete -c weir -n '__weir_after 0 limit' -a del -d 'Delete a named limit'
complete -c weir -n '__weir_words limit' -l help -d 'Print the help'
complete -c weir -n '__weir_words limit set' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words limit set' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words limit set' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words limit set' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words limit set' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words limit set' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words limit set' -l help -d 'Print the help'
complete -c weir -n '__weir_after 1 limit set' -a '(__weir_limit)'
complete -c weir -n '__weir_words limit get' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words limit get' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words limit get' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words limit get' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words limit get' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words limit get' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words limit get' -l help -d 'Print the help'
complete -c weir -n '__weir_words limit list' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words limit list' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words limit list' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words limit list' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words limit list' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words limit list' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words limit list' -l help -d 'Print the help'
complete -c weir -n '__weir_words limit del' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words limit del' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words limit del' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words limit del' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words limit del' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words limit del' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words limit del' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 override' -a set -d 'Give a key other numbers than its limit\'s'
complete -c weir -n '__weir_after 0 override' -a get -d 'Show the numbers of a key'
complete -c weir -n '__weir_after 0 override' -a list -d 'List the overrides of a limit'
complete -c weir -n '__weir_after 0 override' -a del -d 'Give a key its limit\'s numbers again'
complete -c weir -n '__weir_words override' -l help -d 'Print the help'
complete -c weir -n '__weir_words override set' -l prefix -d 'KEY is how keys begin'
complete -c weir -n '__weir_words override set' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words override set' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words override set' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words override set' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words override set' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words override set' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words override set' -l help -d 'Print the help'
complete -c weir -n '__weir_after 2 override set' -a '(__weir_limit)'
complete -c weir -n '__weir_words override get' -l prefix -d 'KEY is how keys begin'
complete -c weir -n '__weir_words override get' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words override get' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words override get' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words override get' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words override get' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words override get' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words override get' -l help -d 'Print the help'
complete -c weir -n '__weir_words override list' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words override list' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words override list' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words override list' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words override list' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words override list' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words override list' -l help -d 'Print the help'
complete -c weir -n '__weir_words override del' -l prefix -d 'KEY is how keys begin'
complete -c weir -n '__weir_words override del' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words override del' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words override del' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words override del' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words override del' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words override del' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words override del' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 list' -a add -d 'Put keys on a list'
complete -c weir -n '__weir_after 0 list' -a del -d 'Take keys off a list'
complete -c weir -n '__weir_after 0 list' -a has -d 'Ask whether a key is on a list'
complete -c weir -n '__weir_after 0 list' -a count -d 'Say how long the lists are'
complete -c weir -n '__weir_words list' -l help -d 'Print the help'
complete -c weir -n '__weir_words list add' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words list add' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words list add' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words list add' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words list add' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words list add' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words list add' -l help -d 'Print the help'
complete -c weir -n '__weir_after 1 list add' -a 'allow deny'
complete -c weir -n '__weir_words list del' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words list del' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words list del' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words list del' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words list del' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words list del' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words list del' -l help -d 'Print the help'
complete -c weir -n '__weir_after 1 list del' -a 'allow deny'
complete -c weir -n '__weir_words list has' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words list has' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words list has' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words list has' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words list has' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words list has' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words list has' -l help -d 'Print the help'
complete -c weir -n '__weir_after 1 list has' -a 'allow deny'
complete -c weir -n '__weir_words list count' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words list count' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words list count' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words list count' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words list count' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words list count' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words list count' -l help -d 'Print the help'
complete -c weir -n '__weir_words stats' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words stats' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words stats' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words stats' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words stats' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words stats' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words stats' -l help -d 'Print the help'
complete -c weir -n '__weir_words ping' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words ping' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words ping' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words ping' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words ping' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words ping' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words ping' -l help -d 'Print the help'
complete -c weir -n '__weir_words reload' -l server -x -d 'The server to ask'
complete -c weir -n '__weir_words reload' -l timeout -x -d 'How long to wait for the connection'
complete -c weir -n '__weir_words reload' -l token-file -r -F -d 'File whose first line is the token that the server expects'
complete -c weir -n '__weir_words reload' -l tls -d 'Speak TLS, as tls:// before the address says too'
complete -c weir -n '__weir_words reload' -l cacert -r -F -d 'PEM file of the authorities that may have signed the server\'s certificate'
complete -c weir -n '__weir_words reload' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words reload' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 store' -a info -d 'Print what a state file contains'
complete -c weir -n '__weir_after 0 store' -a convert -d 'Give a state file another size'
complete -c weir -n '__weir_after 0 store' -a reset -d 'Reset all keys of a state file'
complete -c weir -n '__weir_words store' -l help -d 'Print the help'
complete -c weir -n '__weir_words store info' -l json -d 'Print the same as one JSON object'
complete -c weir -n '__weir_words store info' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 store info' -F
complete -c weir -n '__weir_words store convert' -l max-keys -x -d 'Live keys that the file has room for'
complete -c weir -n '__weir_words store convert' -l max-memory -x -d 'Most bytes that the whole file may take'
complete -c weir -n '__weir_words store convert' -l max-policies -x -d 'Policies that the file has room for'
complete -c weir -n '__weir_words store convert' -l out -r -F -d 'Write the new file there, and leave FILE as it is'
complete -c weir -n '__weir_words store convert' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 store convert' -F
complete -c weir -n '__weir_words store reset' -l all -d 'Forget the policies too'
complete -c weir -n '__weir_words store reset' -l yes -d 'Do not ask'
complete -c weir -n '__weir_words store reset' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 store reset' -F
complete -c weir -n '__weir_words version' -l help -d 'Print the help'
complete -c weir -n '__weir_words help' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 help' -a 'demo sim replay advise explain serve check take run pace peek charge reserve commit cancel enter exit refund reset limit override list stats ping reload store version help limits guards units stores server environment exit-status files topics'
complete -c weir -n '__weir_after 0 help limit' -a 'set get list del'
complete -c weir -n '__weir_after 0 help override' -a 'set get list del'
complete -c weir -n '__weir_after 0 help list' -a 'add del has count'
complete -c weir -n '__weir_after 0 help store' -a 'info convert reset'
