# Completion of weir for bash. Source it, or install it as bash-completion/completions/weir.
#
# A limit is one quoted argument, so it is completed as text: the algorithm first, then the options
# that this algorithm has. Inside an open quote readline closes the quote after a single match; where
# more must follow (a count, a value) a second match says what, and keeps the quote open.
# Made by scripts/cli_docs.py: change src/cli/*_options.c or the template *.in instead.

_weir_algorithms='
    fixed-window sliding-window sliding-counter sliding-log token-bucket leaky-bucket pacer
    smooth-bursty smooth-warmup min-interval unlimited 0/s concurrency system breaker bbr vegas
    gradient aimd adaptive-rate'

# The options of an algorithm; those that end in "=" need a value.
_weir_limit_options()
{
    case $1 in
    fixed-window)
        echo 'align=first align=clock tz= anchor= count-denied shadow fallback=local
        fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    sliding-window)
        echo 'slots= per-slot= per-slot=none per-slot=even count-denied shadow fallback=local
        fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    sliding-counter | min-interval)
        echo 'count-denied shadow fallback=local fallback=allow fallback=deny warn= block=
        after= keys= full=evict full=deny full=allow'
        ;;
    sliding-log)
        echo 'min-interval= count-denied shadow fallback=local fallback=allow fallback=deny
        warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    token-bucket)
        echo 'burst= initial= initial=full initial=empty count-denied shadow fallback=local
        fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    leaky-bucket)
        echo 'capacity= delay= delay=none count-denied shadow fallback=local fallback=allow
        fallback=deny warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    pacer)
        echo 'slack= queue= max-wait= max-wait=forever count-denied shadow fallback=local
        fallback=allow fallback=deny warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    smooth-bursty)
        echo 'max-burst= count-denied shadow fallback=local fallback=allow fallback=deny warn=
        block= after= keys= full=evict full=deny full=allow'
        ;;
    smooth-warmup)
        echo 'warmup= cold= count-denied shadow fallback=local fallback=allow fallback=deny
        warn= block= after= keys= full=evict full=deny full=allow'
        ;;
    unlimited | 0/s)
        echo 'count-denied shadow fallback=local fallback=allow fallback=deny warn= keys=
        full=evict full=deny full=allow'
        ;;
    concurrency)
        echo 'queue= max-wait= max-wait=forever lease= lease=none shadow fallback=local
        fallback=allow fallback=deny keys= full=evict full=deny full=allow'
        ;;
    system)
        echo 'cpu= cpu=none load= load=none memory= memory=none pressure= pressure=none rt=
        rt=none inflight= inflight=none rate= rate=none shadow fallback=local fallback=allow
        fallback=deny keys= full=evict full=deny full=allow'
        ;;
    breaker)
        echo 'preset=none preset=hystrix preset=resilience4j preset=sentinel preset=sre errors=
        errors=none slow= slow=none count= count=none volume= window= buckets= open= open-max=
        growth= probes= probe-timeout= forced=none forced=open forced=closed forced=metrics
        shadow fallback=local fallback=allow fallback=deny keys= full=evict full=deny
        full=allow'
        ;;
    bbr)
        echo 'cpu= cpu=none memory= memory=none load= load=none window= buckets= cooling= shadow
        fallback=local fallback=allow fallback=deny keys= full=evict full=deny full=allow'
        ;;
    vegas | gradient)
        echo 'min= max= initial= shadow fallback=local fallback=allow fallback=deny keys=
        full=evict full=deny full=allow'
        ;;
    aimd)
        echo 'min= max= initial= timeout= shadow fallback=local fallback=allow fallback=deny
        keys= full=evict full=deny full=allow'
        ;;
    adaptive-rate)
        echo 'min= max= target= target=none errors= burst= count-denied shadow fallback=local
        fallback=allow fallback=deny keys= full=evict full=deny full=allow'
        ;;
    esac
}

# The commands within a command; "" is weir itself.
_weir_parts()
{
    case $1 in
    '')
        echo 'demo sim replay advise explain serve check take run pace peek charge reserve
        commit cancel enter exit refund reset limit override list stats ping reload store
        version help'
        ;;
    'limit') echo 'set get list del' ;;
    'override') echo 'set get list del' ;;
    'list') echo 'add del has count' ;;
    'store') echo 'info convert reset' ;;
    'help')
        echo 'demo sim replay advise explain serve check take run pace peek charge reserve
        commit cancel enter exit refund reset limit override list stats ping reload store
        version help limits guards units stores server environment exit-status files topics'
        ;;
    'help limit') echo 'set get list del' ;;
    'help override') echo 'set get list del' ;;
    'help list') echo 'add del has count' ;;
    'help store') echo 'info convert reset' ;;
    esac
}

_weir_options()
{
    case $1 in
    '') echo '--help --version' ;;
    'demo') echo '--no-pause --log --help' ;;
    'sim')
        echo '--json --start --max-keys --traffic --script --rows --chart --svg --width --help'
        ;;
    'replay')
        echo '--format --columns --key --time --time-format --cost --status --max-clients
        --compare --top --json --chart --svg --width --help'
        ;;
    'advise')
        echo '--format --columns --key --time --time-format --cost --status --max-clients
        --refuse --over --rate --json --chart --svg --width --help'
        ;;
    'explain') echo '--json --help' ;;
    'serve')
        echo '--config --listen --admin-listen --metrics-listen --tokens --keep --insecure
        --tls-cert --tls-key --tls-ca --tls-clients --socket-mode --socket-group --limit --store
        --max-keys --full --threads --max-connections --max-request --max-key --max-output
        --max-buffered --max-delayed --max-tickets --connection-part --peer-part --token-part
        --max-memory --max-wait --idle --drain --literals --literal-state --no-admin --host
        --trust --trust-hops --client-header --ipv6-prefix --headers --core-dumps --log-level
        --log-format --log-to --clock --help'
        ;;
    'check') echo '--json --request --header --ip --attr --help' ;;
    'take')
        echo '--store --limit --no-fallback --max-keys --server --timeout --token-file --tls
        --cacert --json --help'
        ;;
    'run')
        echo '--limit --key --cost --wait --ttl --store --denied-status --no-answer-status
        --server --timeout --token-file --tls --cacert --json --help'
        ;;
    'pace') echo '--bytes --max-line --help' ;;
    'peek') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'charge') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'reserve') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'commit') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'cancel') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'enter') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'exit') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'refund') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'reset') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'limit') echo '--help' ;;
    'limit set') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'limit get') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'limit list') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'limit del') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'override') echo '--help' ;;
    'override set') echo '--prefix --server --timeout --token-file --tls --cacert --json --help' ;;
    'override get') echo '--prefix --server --timeout --token-file --tls --cacert --json --help' ;;
    'override list') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'override del') echo '--prefix --server --timeout --token-file --tls --cacert --json --help' ;;
    'list') echo '--help' ;;
    'list add') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'list del') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'list has') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'list count') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'stats') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'ping') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'reload') echo '--server --timeout --token-file --tls --cacert --json --help' ;;
    'store') echo '--help' ;;
    'store info') echo '--json --help' ;;
    'store convert') echo '--max-keys --max-memory --max-policies --out --help' ;;
    'store reset') echo '--all --yes --help' ;;
    'version') echo '--help' ;;
    'help') echo '--help' ;;
    esac
}

# _weir_value COMMAND OPTION: what the value of the option may be. Fails if it has none.
_weir_value()
{
    case "$1 $2" in
    'sim --start') ;;
    'sim --max-keys') ;;
    'sim --traffic') echo '<traffic>' ;;
    'sim --svg') echo '<file>' ;;
    'sim --width') ;;
    'replay --format') echo 'auto common combined vhost json logfmt csv tsv' ;;
    'replay --columns') ;;
    'replay --key') ;;
    'replay --time') ;;
    'replay --time-format') echo 'auto s ms us ns iso clf' ;;
    'replay --cost') ;;
    'replay --status') ;;
    'replay --max-clients') ;;
    'replay --top') ;;
    'replay --svg') echo '<file>' ;;
    'replay --width') ;;
    'advise --format') echo 'auto common combined vhost json logfmt csv tsv' ;;
    'advise --columns') ;;
    'advise --key') ;;
    'advise --time') ;;
    'advise --time-format') echo 'auto s ms us ns iso clf' ;;
    'advise --cost') ;;
    'advise --status') ;;
    'advise --max-clients') ;;
    'advise --refuse') ;;
    'advise --over') ;;
    'advise --rate') ;;
    'advise --svg') echo '<file>' ;;
    'advise --width') ;;
    'serve --config') echo '<file>' ;;
    'serve --listen') ;;
    'serve --admin-listen') ;;
    'serve --metrics-listen') ;;
    'serve --tokens') echo '<file>' ;;
    'serve --keep') echo '<file>' ;;
    'serve --tls-cert') echo '<file>' ;;
    'serve --tls-key') echo '<file>' ;;
    'serve --tls-ca') echo '<file>' ;;
    'serve --tls-clients') echo 'required optional' ;;
    'serve --socket-mode') echo '0660 0600 0666' ;;
    'serve --socket-group') ;;
    'serve --limit') ;;
    'serve --store') echo 'memory: file:/ redis:// redis+unix:/' ;;
    'serve --max-keys') ;;
    'serve --full') echo 'evict deny allow' ;;
    'serve --threads') ;;
    'serve --max-connections') ;;
    'serve --max-request') ;;
    'serve --max-key') ;;
    'serve --max-output') ;;
    'serve --max-buffered') ;;
    'serve --max-delayed') ;;
    'serve --max-tickets') ;;
    'serve --connection-part') echo '1/16 1' ;;
    'serve --peer-part') echo '1/4 1' ;;
    'serve --token-part') echo '1/4 1' ;;
    'serve --max-memory') ;;
    'serve --max-wait') echo '1h forever' ;;
    'serve --idle') ;;
    'serve --drain') ;;
    'serve --literals') echo 'on off' ;;
    'serve --literal-state') ;;
    'serve --host') ;;
    'serve --trust') echo 'loopback,unix none' ;;
    'serve --trust-hops') ;;
    'serve --client-header') echo 'X-Forwarded-For Forwarded X-Real-IP X-Weir-Key' ;;
    'serve --ipv6-prefix') ;;
    'serve --headers') echo 'draft draft,x draft-6 x x-rate none epoch jitter=10%' ;;
    'serve --log-level') echo 'info warning error' ;;
    'serve --log-format') echo 'logfmt json' ;;
    'serve --log-to') echo 'stderr syslog' ;;
    'serve --clock') echo 'system manual' ;;
    'check --request') ;;
    'check --header') ;;
    'check --ip') ;;
    'check --attr') ;;
    'take --store') echo 'memory: file:/ redis:// redis+unix:/' ;;
    'take --limit') ;;
    'take --max-keys') ;;
    'take --server') ;;
    'take --timeout') ;;
    'take --token-file') echo '<file>' ;;
    'take --cacert') echo '<file>' ;;
    'run --limit') echo '<limit>' ;;
    'run --key') ;;
    'run --cost') ;;
    'run --wait') echo 'forever' ;;
    'run --ttl') ;;
    'run --store') echo 'memory: file:/ redis:// redis+unix:/' ;;
    'run --denied-status') ;;
    'run --no-answer-status') ;;
    'run --server') ;;
    'run --timeout') ;;
    'run --token-file') echo '<file>' ;;
    'run --cacert') echo '<file>' ;;
    'pace --max-line') ;;
    'peek --server') ;;
    'peek --timeout') ;;
    'peek --token-file') echo '<file>' ;;
    'peek --cacert') echo '<file>' ;;
    'charge --server') ;;
    'charge --timeout') ;;
    'charge --token-file') echo '<file>' ;;
    'charge --cacert') echo '<file>' ;;
    'reserve --server') ;;
    'reserve --timeout') ;;
    'reserve --token-file') echo '<file>' ;;
    'reserve --cacert') echo '<file>' ;;
    'commit --server') ;;
    'commit --timeout') ;;
    'commit --token-file') echo '<file>' ;;
    'commit --cacert') echo '<file>' ;;
    'cancel --server') ;;
    'cancel --timeout') ;;
    'cancel --token-file') echo '<file>' ;;
    'cancel --cacert') echo '<file>' ;;
    'enter --server') ;;
    'enter --timeout') ;;
    'enter --token-file') echo '<file>' ;;
    'enter --cacert') echo '<file>' ;;
    'exit --server') ;;
    'exit --timeout') ;;
    'exit --token-file') echo '<file>' ;;
    'exit --cacert') echo '<file>' ;;
    'refund --server') ;;
    'refund --timeout') ;;
    'refund --token-file') echo '<file>' ;;
    'refund --cacert') echo '<file>' ;;
    'reset --server') ;;
    'reset --timeout') ;;
    'reset --token-file') echo '<file>' ;;
    'reset --cacert') echo '<file>' ;;
    'limit set --server') ;;
    'limit set --timeout') ;;
    'limit set --token-file') echo '<file>' ;;
    'limit set --cacert') echo '<file>' ;;
    'limit get --server') ;;
    'limit get --timeout') ;;
    'limit get --token-file') echo '<file>' ;;
    'limit get --cacert') echo '<file>' ;;
    'limit list --server') ;;
    'limit list --timeout') ;;
    'limit list --token-file') echo '<file>' ;;
    'limit list --cacert') echo '<file>' ;;
    'limit del --server') ;;
    'limit del --timeout') ;;
    'limit del --token-file') echo '<file>' ;;
    'limit del --cacert') echo '<file>' ;;
    'override set --server') ;;
    'override set --timeout') ;;
    'override set --token-file') echo '<file>' ;;
    'override set --cacert') echo '<file>' ;;
    'override get --server') ;;
    'override get --timeout') ;;
    'override get --token-file') echo '<file>' ;;
    'override get --cacert') echo '<file>' ;;
    'override list --server') ;;
    'override list --timeout') ;;
    'override list --token-file') echo '<file>' ;;
    'override list --cacert') echo '<file>' ;;
    'override del --server') ;;
    'override del --timeout') ;;
    'override del --token-file') echo '<file>' ;;
    'override del --cacert') echo '<file>' ;;
    'list add --server') ;;
    'list add --timeout') ;;
    'list add --token-file') echo '<file>' ;;
    'list add --cacert') echo '<file>' ;;
    'list del --server') ;;
    'list del --timeout') ;;
    'list del --token-file') echo '<file>' ;;
    'list del --cacert') echo '<file>' ;;
    'list has --server') ;;
    'list has --timeout') ;;
    'list has --token-file') echo '<file>' ;;
    'list has --cacert') echo '<file>' ;;
    'list count --server') ;;
    'list count --timeout') ;;
    'list count --token-file') echo '<file>' ;;
    'list count --cacert') echo '<file>' ;;
    'stats --server') ;;
    'stats --timeout') ;;
    'stats --token-file') echo '<file>' ;;
    'stats --cacert') echo '<file>' ;;
    'ping --server') ;;
    'ping --timeout') ;;
    'ping --token-file') echo '<file>' ;;
    'ping --cacert') echo '<file>' ;;
    'reload --server') ;;
    'reload --timeout') ;;
    'reload --token-file') echo '<file>' ;;
    'reload --cacert') echo '<file>' ;;
    'store convert --max-keys') ;;
    'store convert --max-memory') ;;
    'store convert --max-policies') ;;
    'store convert --out') echo '<file>' ;;
    *) return 1 ;;
    esac
}

# _weir_operand COMMAND N: what the argument after N others may be.
_weir_operand()
{
    case "$1 $2" in
    'sim 0') echo '<limit> <file>' ;;
    'sim 1') echo '<file>' ;;
    'sim '*) ;;
    'replay 0') echo '<file>' ;;
    'replay 1') echo '<limit>' ;;
    'replay '*) ;;
    'advise 0') echo '<file>' ;;
    'advise '*) ;;
    'explain 0') echo '<limit>' ;;
    'explain '*) ;;
    'check 0') echo '<file>' ;;
    'check '*) ;;
    'take 0') echo '<limit>' ;;
    'take 1') ;;
    'take '*) echo 'cost= wait= wait=forever numbers=' ;;
    'run 0') ;;
    'run 1') ;;
    'run '*) ;;
    'pace 0') echo '<limit>' ;;
    'pace '*) ;;
    'peek 0') echo '<limit>' ;;
    'peek 1') ;;
    'peek '*) echo 'cost= numbers=' ;;
    'charge 0') echo '<limit>' ;;
    'charge 1') ;;
    'charge 2') ;;
    'charge '*) ;;
    'reserve 0') echo '<limit>' ;;
    'reserve 1') ;;
    'reserve 2') ;;
    'reserve '*) echo 'ttl= lapse= lapse=keep lapse=free' ;;
    'commit 0') ;;
    'commit 1') ;;
    'commit '*) ;;
    'cancel 0') ;;
    'cancel '*) ;;
    'enter 0') echo '<limit>' ;;
    'enter 1') ;;
    'enter '*) echo 'cost= wait= wait=forever ttl=' ;;
    'exit 0') ;;
    'exit 1') echo 'ok error drop ignore' ;;
    'exit '*) echo 'took=' ;;
    'refund 0') echo '<limit>' ;;
    'refund 1') ;;
    'refund '*) echo 'cost=' ;;
    'reset 0') echo '<limit>' ;;
    'reset 1') ;;
    'reset '*) ;;
    'limit set 0') ;;
    'limit set 1') echo '<limit>' ;;
    'limit set '*) ;;
    'limit get 0') ;;
    'limit get '*) ;;
    'limit del 0') ;;
    'limit del '*) ;;
    'override set 0') ;;
    'override set 1') ;;
    'override set 2') echo '<limit>' ;;
    'override set '*) ;;
    'override get 0') ;;
    'override get 1') ;;
    'override get '*) ;;
    'override list 0') ;;
    'override list '*) ;;
    'override del 0') ;;
    'override del 1') ;;
    'override del '*) ;;
    'list add 0') ;;
    'list add 1') echo 'allow deny' ;;
    'list add 2') ;;
    'list add '*) ;;
    'list del 0') ;;
    'list del 1') echo 'allow deny' ;;
    'list del 2') ;;
    'list del '*) ;;
    'list has 0') ;;
    'list has 1') echo 'allow deny' ;;
    'list has 2') ;;
    'list has '*) ;;
    'list count 0') ;;
    'list count '*) ;;
    'store info 0') echo '<file>' ;;
    'store info '*) ;;
    'store convert 0') echo '<file>' ;;
    'store convert '*) ;;
    'store reset 0') echo '<file>' ;;
    'store reset '*) ;;
    esac
}

# _weir_offer HEAD WORD CANDIDATE...: the candidates that begin with WORD, each behind HEAD.
_weir_offer()
{
    local head=$1 word=$2 candidate
    shift 2
    for candidate; do
        [[ $candidate == "$word"* ]] && COMPREPLY+=("$head$candidate")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=\ ] ]]; then
        COMPREPLY+=("${COMPREPLY[0]}...")
    fi
}

# The text of a limit; $2 is put before text that was not quoted.
_weir_limit()
{
    local text=$1 quote=$2 term head word algorithm option candidates=()
    compopt -o nospace 2>/dev/null
    term=${text##* + }
    head=$quote${text%"$term"}
    if [[ $term != *' '* ]]; then
        for algorithm in $_weir_algorithms; do
            candidates+=("$algorithm ")
        done
        _weir_offer "$head" "$term" "${candidates[@]}"
        return
    fi
    algorithm=${term%% *}
    word=${term##* }
    if [[ $algorithm == */* ]]; then
        algorithm=token-bucket
    elif [[ ${term#* } != *' '* && $algorithm != @(unlimited|0/s|system|breaker|bbr|vegas|gradient|aimd) ]]; then
        return # the count and the period
    fi
    head=$quote${text%"$word"}
    for option in $(_weir_limit_options "$algorithm"); do
        [[ " $term" == *" ${option%%=*}="* && $word != "${option%%=*}="* ]] && continue
        [[ " $term " == *" $option "* ]] && continue
        candidates+=("$option")
    done
    _weir_offer "$head" "$word" "${candidates[@]}"
}

# The text of --traffic: the phase, then the settings that it may have.
_weir_traffic()
{
    local text=$1 quote=$2 phase word candidates=()
    compopt -o nospace 2>/dev/null
    phase=${text##*;}
    phase=${phase#"${phase%%[! ]*}"}
    word=${phase##* }
    if [[ $phase != *' '* ]]; then
        candidates=('steady ' 'ramp ' 'poisson ' 'burst ' 'pause ' 'service ')
    elif [[ $phase == service\ * ]]; then
        candidates=('workers=' 'errors=' 'queue=' 'timeout=' 'jitter=' 'seed=')
    else
        candidates=('key=' 'keys=' 'cost=')
        [[ $phase == poisson\ * ]] && candidates+=('seed=')
        [[ $phase == burst\ * ]] && candidates+=('at ')
    fi
    _weir_offer "$quote${text%"$word"}" "$word" "${candidates[@]}"
}

_weir_files()
{
    compopt -o filenames +o nospace 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# _weir_complete WHAT WORD QUOTE: WHAT is <limit>, <traffic>, <file>, or words. The first of them that
# has a candidate offers its own.
_weir_complete()
{
    local what
    if [[ $1 != *'<'* ]]; then
        COMPREPLY=($(compgen -W "$1" -- "$2"))
        [[ ${COMPREPLY[0]} == *[=:/] ]] && compopt -o nospace 2>/dev/null
        return
    fi
    for what in $1; do
        case $what in
        '<limit>') _weir_limit "$2" "$3" ;;
        '<traffic>') _weir_traffic "$2" "$3" ;;
        '<file>') _weir_files "$2" ;;
        esac
        ((${#COMPREPLY[@]} > 0)) && return
    done
}

_weir()
{
    local cur=${COMP_WORDS[COMP_CWORD]} command= option= quote="'" word i n=0
    COMPREPLY=()
    # Goes over the words before the current one: commands, options and their values, arguments.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $option ]]; then # this is the option's value; readline makes a word of "="
            [[ $word == = ]] || option=
        elif [[ $word == -?* ]]; then
            _weir_value "$command" "$word" >/dev/null && option=$word
        elif [[ " $(_weir_parts "$command") " == *[[:space:]]"$word"[[:space:]]* ]]; then
            command+=${command:+ }$word
        else
            ((n++))
        fi
    done
    [[ -n $option && $cur == = ]] && cur=
    if [[ $cur == [\'\"]* ]]; then # an open quote: what is completed is the text behind it
        cur=${cur:1} quote=
    fi
    if [[ -n $option ]]; then
        _weir_complete "$(_weir_value "$command" "$option")" "$cur" "$quote"
    elif [[ $cur == -* ]]; then
        _weir_complete "$(_weir_options "$command")" "$cur"
    elif [[ -n $(_weir_parts "$command") ]]; then
        _weir_complete "$(_weir_parts "$command") $(_weir_options "$command")" "$cur"
    else
        _weir_complete "$(_weir_operand "$command" "$n")" "$cur" "$quote"
    fi
}

complete -F _weir weir
