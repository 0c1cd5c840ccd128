# Completion of weir for fish. Put it in a directory of $fish_complete_path.
#
# A limit is one argument, so it is completed as a whole: what stands already, and what may follow.

function __weir_options_of
    switch $argv[1]
        case fixed-window
            printf '%s\n' align=first align=clock tz=
        case sliding-window
            printf '%s\n' slots= per-slot=even per-slot=none
        case sliding-log
            printf '%s\n' min-interval=
        case token-bucket
            printf '%s\n' burst= initial=full initial=empty
        case leaky-bucket
            printf '%s\n' capacity= delay=none delay=0
        case pacer
            printf '%s\n' slack= queue= max-wait=forever
        case smooth-bursty
            printf '%s\n' max-burst=
        case smooth-warmup
            printf '%s\n' warmup= cold=
        case concurrency
            printf '%s\n' queue= max-wait= max-wait=forever lease=
        case system
            printf '%s\n' cpu= load= memory= pressure= rt= inflight= rate=
        case breaker
            printf '%s\n' preset=hystrix preset=resilience4j preset=sentinel preset=sre errors= slow= \
                count= volume= window= buckets= open= open-max= growth= probes= probe-timeout= \
                forced=open forced=closed forced=metrics
        case bbr
            printf '%s\n' cpu= memory= load= window= buckets= cooling=
        case vegas gradient
            printf '%s\n' min= max= initial=
        case aimd
            printf '%s\n' min= max= initial= timeout=
        case adaptive-rate
            printf '%s\n' min= max= target= errors= burst=
    end
    if not contains -- $argv[1] concurrency system breaker bbr vegas gradient aimd
        echo count-denied
    end
    printf '%s\n' shadow fallback=local fallback=allow fallback=deny keys= full=evict full=deny full=allow
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
            "$head"fixed-window\  'a counter that starts anew with each window' \
            "$head"sliding-window\  'a ring of counters' \
            "$head"sliding-counter\  'this window, and the last one by its overlap' \
            "$head"sliding-log\  'the times of the last events; exact' \
            "$head"token-bucket\  'refills at the rate, keeps a burst' \
            "$head"leaky-bucket\  'leaks at the rate; with a delay, a queue' \
            "$head"pacer\  'turns at a constant pace' \
            "$head"smooth-bursty\  'the next caller pays' \
            "$head"smooth-warmup\  'a slow start after a rest' \
            "$head"min-interval\  'at least this long between events' \
            "$head"concurrency\  'so many at once' \
            "$head"system\  'a gate for the whole process' \
            "$head"breaker\  'stop calling what does not answer' \
            "$head"bbr\  'shed what would only queue, while the machine is hot' \
            "$head"vegas\  'a limit that hears the queue' \
            "$head"gradient\  'a limit that follows latency' \
            "$head"aimd\  'a limit that goes up until it hurts' \
            "$head"adaptive-rate\  'a rate that follows what it hears'
        return
    end
    set -l algorithm $words[1]
    if string match -q '*/*' -- $algorithm
        set algorithm token-bucket
    else if test (count $words) -lt 3; and not contains -- $algorithm system breaker bbr vegas gradient aimd
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
            "$before"pause\  'LENGTH'
    else
        printf '%s\n' "$before"key= "$before"keys= "$before"cost= "$before"seed=
    end
end

# The words before the cursor that are not options, without weir.
function __weir_said
    commandline -opc | string match -v -- '-*' | string join ' ' | string replace -r '^\S* ?' ''
end

# Are they these words, and perhaps more?
function __weir_words
    string match -q -- "$argv *" (__weir_said)' '
end

# Are they just these?
function __weir_just
    test (__weir_said)'' = "$argv"
end

# Is this the first argument after the command that is not an option?
function __weir_at_first
    test (count (commandline -opc | string match -v -- '-*')) -eq 2
end

complete -c weir -f
complete -c weir -n __fish_use_subcommand -a serve -d 'Decide limits for others: RESP and HTTP'
complete -c weir -n __fish_use_subcommand -a take -d 'Decide once, on a store that others share'
complete -c weir -n __fish_use_subcommand -a sim -d 'Run events, or made-up traffic, against a limit'
complete -c weir -n __fish_use_subcommand -a explain -d 'Say in plain words what a limit will do'
complete -c weir -n __fish_use_subcommand -a store -d 'Look into a shared file, convert it, reset it'
complete -c weir -n __fish_use_subcommand -a version -d 'Print the version'
complete -c weir -n __fish_use_subcommand -a help -d 'Print the help, or the help of a command'
complete -c weir -n __fish_use_subcommand -l help -d 'Print the help'
complete -c weir -n __fish_use_subcommand -l version -d 'Print the version'

complete -c weir -n '__fish_seen_subcommand_from sim' -F
complete -c weir -n '__fish_seen_subcommand_from sim explain; and __weir_at_first' -a '(__weir_limit)'
complete -c weir -n '__fish_seen_subcommand_from sim explain' -l json -d 'Print JSON'
complete -c weir -n '__fish_seen_subcommand_from sim' -l start -x -d 'When the clock starts'
complete -c weir -n '__fish_seen_subcommand_from sim' -l traffic -x -a '(__weir_traffic)' -d 'Make the events'
complete -c weir -n '__fish_seen_subcommand_from sim' -l script -d 'Print the script, run nothing'
complete -c weir -n '__fish_seen_subcommand_from sim' -l picture -d 'Draw what was granted and refused'

for option in listen:'Where' limit:'A limit by name' max-keys:'Room for so many live keys' threads:'Workers' \
    max-connections:'At once' max-request:'Bytes of a request' max-key:'Bytes of a key' \
    max-output:'Bytes of answers not yet read' max-held:'Answers held back' max-buffered:'Bytes in all connections' \
    connection-part:'What one connection may have' peer-part:'What one address may have' \
    max-memory:'Bytes of stores and connections' max-wait:'No request waits longer' \
    idle:'Close silent connections after' drain:'Wait for held answers at the end' \
    literal-state:'Bytes of state of a key of a limit in a request' host:'A name that requests may have as Host' \
    ipv6-prefix:'Bits of an address that are one client'
    set -l both (string split -m 1 : -- $option)
    complete -c weir -n '__fish_seen_subcommand_from serve' -l $both[1] -x -d $both[2]
end
complete -c weir -n '__fish_seen_subcommand_from serve take' -l store -x -a 'memory: file:/ redis:// redis+unix:/' -d 'Where keys are kept'
complete -c weir -n '__fish_seen_subcommand_from serve' -l full -x -a 'evict deny allow' -d 'What new keys get in a full store'
complete -c weir -n '__fish_seen_subcommand_from serve' -l literals -x -a 'on off' -d 'Limits in requests'
complete -c weir -n '__fish_seen_subcommand_from serve' -l no-admin -d 'Clients take and look only'
complete -c weir -n '__fish_seen_subcommand_from serve' -l clock -x -a 'manual system' -d 'For tests'

complete -c weir -n '__fish_seen_subcommand_from take; and __weir_at_first' -a '(__weir_limit)'
complete -c weir -n '__fish_seen_subcommand_from take; and not __weir_at_first' -a 'cost= wait= wait=forever'
complete -c weir -n '__fish_seen_subcommand_from take' -l limit -x -d 'What a name is'
complete -c weir -n '__fish_seen_subcommand_from take' -l no-fallback -d 'An absent store is no answer'
complete -c weir -n '__fish_seen_subcommand_from take' -l max-keys -x -d 'Room in a new file'
complete -c weir -n '__fish_seen_subcommand_from take' -l json -d 'Print JSON'

complete -c weir -n '__weir_just store' -a info -d 'Say what it holds and whether it is sound'
complete -c weir -n '__weir_just store' -a convert -d 'Make it another size'
complete -c weir -n '__weir_just store' -a reset -d 'Make all keys as good as new'
for verb in info convert reset
    complete -c weir -n "__weir_words store $verb" -F
end
complete -c weir -n '__weir_words store info' -l json -d 'Print JSON'
complete -c weir -n '__weir_words store convert' -l max-keys -x -d 'Room for so many live keys'
complete -c weir -n '__weir_words store convert' -l max-memory -x -d 'The most that the whole file may take'
complete -c weir -n '__weir_words store convert' -l max-policies -x -d 'Room for so many policies'
complete -c weir -n '__weir_words store convert' -l out -r -F -d 'Write the new file there'
complete -c weir -n '__weir_words store reset' -l all -d 'Forget the policies too'
complete -c weir -n '__weir_words store reset' -l yes -d 'Do not ask'

complete -c weir -n '__fish_seen_subcommand_from serve take sim explain store version' -l help -d 'Print the help'
complete -c weir -n '__weir_just help' -a 'serve take sim explain store version'
complete -c weir -n '__weir_just help store' -a 'info convert reset'
