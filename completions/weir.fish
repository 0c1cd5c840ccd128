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
            case --admin-listen --attr --client-header --clock --columns --config \
                    --connection-part --cost --drain --format --full --header --headers --host \
                    --idle --ip --ipv6-prefix --keep --key --limit --listen --literal-state \
                    --literals --log-format --log-level --log-to --max-buffered --max-clients \
                    --max-connections --max-delayed --max-key --max-keys --max-memory \
                    --max-output --max-policies --max-request --max-tickets --max-wait \
                    --metrics-listen --out --over --peer-part --rate --refuse --request \
                    --socket-group --socket-mode --start --status --store --svg --threads --time \
                    --time-format --tls-ca --tls-cert --tls-clients --tls-key --token-part \
                    --tokens --top --traffic --trust --trust-hops --width
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
complete -c weir -n '__weir_after 0' -a sim -d 'Run a script of events, or made-up traffic, against a limit'
complete -c weir -n '__weir_after 0' -a replay -d 'Run a log through limits'
complete -c weir -n '__weir_after 0' -a advise -d 'Which limit fits a log?'
complete -c weir -n '__weir_after 0' -a explain -d 'Say in plain words what a limit will do'
complete -c weir -n '__weir_after 0' -a serve -d 'Decide limits for other programs'
complete -c weir -n '__weir_after 0' -a check -d 'Check a configuration file, and say what it means'
complete -c weir -n '__weir_after 0' -a take -d 'Decide once, on a store that others share'
complete -c weir -n '__weir_after 0' -a store -d 'Inspect, convert or reset a file that processes share'
complete -c weir -n '__weir_after 0' -a version -d 'Print the version'
complete -c weir -n '__weir_after 0' -a help -d 'Print this help, or the help of a command'
complete -c weir -n '__weir_after 0' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0' -l version -d 'Print the version'
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
complete -c weir -n '__weir_words take' -l store -x -a 'memory: file:/ redis:// redis+unix:/' -d 'Store of the key'
complete -c weir -n '__weir_words take' -l limit -x -d 'Define NAME, which a file then remembers'
complete -c weir -n '__weir_words take' -l no-fallback -d 'Give no answer (status 3) if the store does not answer'
complete -c weir -n '__weir_words take' -l max-keys -x -d 'Live keys that a file has room for, if this command makes the file'
complete -c weir -n '__weir_words take' -l json -d 'Print the answer as one JSON object, with times in nanoseconds'
complete -c weir -n '__weir_words take' -l help -d 'Print the help'
complete -c weir -n '__weir_after 0 take' -a '(__weir_limit)'
complete -c weir -n '__weir_words take; and not __weir_after 0 take; and not __weir_after 1 take' -a 'cost= wait= wait=forever'
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
complete -c weir -n '__weir_after 0 help' -a 'sim replay advise explain serve check take store version help'
complete -c weir -n '__weir_after 0 help store' -a 'info convert reset'
