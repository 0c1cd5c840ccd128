# Completion of weir for bash. Source it, or install it as bash-completion/completions/weir.
#
# A limit is one quoted argument, so it is completed as text: the algorithm first, then the options
# that this algorithm has. Inside an open quote readline closes the quote behind a lone match; where
# more must follow (a count, a value) a second match says what, and keeps the quote open.

_weir_algorithms='fixed-window sliding-window sliding-counter sliding-log token-bucket
    leaky-bucket pacer smooth-bursty smooth-warmup min-interval
    concurrency system breaker bbr vegas gradient aimd adaptive-rate'

# The options of an algorithm; those that end in "=" want a value.
_weir_options()
{
    case $1 in
    fixed-window) echo 'align=first align=clock tz=' ;;
    sliding-window) echo 'slots= per-slot=even per-slot=none' ;;
    sliding-log) echo 'min-interval=' ;;
    token-bucket) echo 'burst= initial=full initial=empty' ;;
    leaky-bucket) echo 'capacity= delay=none delay=0' ;;
    pacer) echo 'slack= queue= max-wait=forever' ;;
    smooth-bursty) echo 'max-burst=' ;;
    smooth-warmup) echo 'warmup= cold=' ;;
    concurrency) echo 'queue= max-wait= max-wait=forever lease=' ;;
    system) echo 'cpu= load= memory= pressure= rt= inflight= rate=' ;;
    breaker)
        echo 'preset=hystrix preset=resilience4j preset=sentinel preset=sre errors= slow= count='
        echo 'volume= window= buckets= open= open-max= growth= probes= probe-timeout='
        echo 'forced=open forced=closed forced=metrics'
        ;;
    bbr) echo 'cpu= memory= load= window= buckets= cooling=' ;;
    vegas | gradient) echo 'min= max= initial=' ;;
    aimd) echo 'min= max= initial= timeout=' ;;
    adaptive-rate) echo 'min= max= target= errors= burst=' ;;
    esac
    case $1 in
    concurrency | system | breaker | bbr | vegas | gradient | aimd) echo 'shadow' ;;
    *) echo 'count-denied shadow' ;;
    esac
    echo 'fallback=local fallback=allow fallback=deny keys= full=evict full=deny full=allow'
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

# The text of a limit; $2 goes before what was not quoted.
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
    elif [[ ${term#* } != *' '* && $algorithm != @(system|breaker|bbr|vegas|gradient|aimd) ]]; then
        return # the count and the period
    fi
    head=$quote${text%"$word"}
    for option in $(_weir_options "$algorithm"); do
        [[ " $term" == *" ${option%%=*}="* && $word != "${option%%=*}="* ]] && continue
        [[ " $term " == *" $option "* ]] && continue
        candidates+=("$option")
    done
    _weir_offer "$head" "$word" "${candidates[@]}"
}

# The text of --traffic: the phase, then what a phase may carry.
_weir_traffic()
{
    local text=$1 quote=$2 phase word candidates=()
    compopt -o nospace 2>/dev/null
    phase=${text##*;}
    phase=${phase#"${phase%%[! ]*}"}
    word=${phase##* }
    if [[ $phase != *' '* ]]; then
        candidates=('steady ' 'ramp ' 'poisson ' 'burst ' 'pause ')
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

_weir_serve_options='--listen --limit --store --max-keys --threads --max-connections --max-request
    --max-key --max-output --max-buffered --max-held --connection-part --peer-part --max-memory
    --max-wait --idle --drain --literals --literal-state --no-admin --host --ipv6-prefix --full
    --clock --help'

_weir_take_options='--store --limit --no-fallback --max-keys --json --help'
_weir_stores='memory: file:/ redis:// redis+unix:/'

# How many arguments of `take` there are before the current one that are no options.
_weir_take_arguments()
{
    local i n=0
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --store | --limit | --max-keys) ((i++)) ;;
        --*) ;;
        *) ((n++)) ;;
        esac
    done
    echo $n
}

_weir_take()
{
    case $(_weir_take_arguments) in
    0) _weir_limit "$1" "$2" ;;
    1) ;; # the key
    *)
        compopt -o nospace 2>/dev/null
        COMPREPLY=($(compgen -W 'cost= wait= wait=forever' -- "$1"))
        ;;
    esac
}

_weir_store_options()
{
    case $1 in
    info) echo '--json --help' ;;
    convert) echo '--max-keys --max-memory --max-policies --out --help' ;;
    reset) echo '--all --yes --help' ;;
    esac
}

# Is there an argument before the current one that is not an option?
_weir_has_argument()
{
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --start | --traffic) ((i++)) ;;
        --start=* | --traffic=*) ;;
        -?*) ;;
        *) return 0 ;;
        esac
    done
    return 1
}

_weir()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} quote="'"
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W 'serve take sim explain store version help --help --version' -- "$cur"))
        return
    fi
    if [[ $cur == [\'\"]* ]]; then # an open quote: what is completed is the text behind it
        cur=${cur:1} quote=
    fi
    case $command:$prev in
    sim:--traffic) _weir_traffic "$cur" "$quote" && return ;;
    sim:--start) return ;;
    serve:--store | take:--store)
        compopt -o nospace 2>/dev/null
        COMPREPLY=($(compgen -W "$_weir_stores" -- "$cur")) && return
        ;;
    take:--limit | take:--max-keys) return ;;
    serve:--full) COMPREPLY=($(compgen -W 'evict deny allow' -- "$cur")) && return ;;
    serve:--literals) COMPREPLY=($(compgen -W 'on off' -- "$cur")) && return ;;
    serve:--clock) COMPREPLY=($(compgen -W 'manual system' -- "$cur")) && return ;;
    store:store) COMPREPLY=($(compgen -W 'info convert reset --help' -- "$cur")) && return ;;
    store:--max-*) return ;;
    help:help) COMPREPLY=($(compgen -W 'serve take sim explain store version' -- "$cur")) && return ;;
    help:store) COMPREPLY=($(compgen -W 'info convert reset' -- "$cur")) && return ;;
    esac
    case $command:$cur in
    sim:-*) COMPREPLY=($(compgen -W '--json --start --traffic --script --picture --help' -- "$cur")) ;;
    serve:-*) COMPREPLY=($(compgen -W "$_weir_serve_options" -- "$cur")) ;;
    take:-*) COMPREPLY=($(compgen -W "$_weir_take_options" -- "$cur")) ;;
    take:*) _weir_take "$cur" "$quote" ;;
    store:-*) COMPREPLY=($(compgen -W "$(_weir_store_options "${COMP_WORDS[2]}")" -- "$cur")) ;;
    explain:-*) COMPREPLY=($(compgen -W '--json --help' -- "$cur")) ;;
    version:-*) COMPREPLY=($(compgen -W '--help' -- "$cur")) ;;
    sim:*)
        _weir_has_argument || _weir_limit "$cur" "$quote"
        ((${#COMPREPLY[@]} == 0)) && _weir_files "$cur"
        ;;
    store:*) _weir_files "$cur" ;;
    explain:*) _weir_has_argument || _weir_limit "$cur" "$quote" ;;
    esac
}

complete -F _weir weir
