/* Unit tests of the grammar of limits: texts, canonical forms and messages. */
#include "check.h"

#include <string.h>

#include <weir.h>

static void accepted_texts_print_in_canonical_form(void **state)
{
    static const struct {
        const char *text, *canonical;
    } ROWS[] = {
        {"100/s", "token-bucket 100/s"},
        {"unlimited", "unlimited"},
        {"unlimited shadow + 10/s", "unlimited shadow + token-bucket 10/s"},
        {"0/s", "0/s"},
        {"0/1m", "0/s"},
        {"0/day fallback=deny", "0/s fallback=deny"},
        {"0r/s", "0/s"},
        {"00/2h", "0/s"},
        {"0 per minute", "0/s"},
        {"0 per 5 minutes count-denied + unlimited", "0/s count-denied + unlimited"},
        {"token-bucket 100/1s burst=100", "token-bucket 100/s"},
        {"  token-bucket\t10/s   burst=20 ", "token-bucket 10/s burst=20"},
        {"token-bucket 1k/min initial=full", "token-bucket 1000/m"},
        {"token-bucket 1.5k/h burst=2M", "token-bucket 1500/h burst=2000000"},
        {"token-bucket 10/s initial=empty", "token-bucket 10/s initial=empty"},
        {"token-bucket 10/s initial=0", "token-bucket 10/s initial=empty"},
        {"token-bucket 10/s initial=10", "token-bucket 10/s"},
        {"token-bucket 10/s initial=3 burst=5", "token-bucket 10/s burst=5 initial=3"},
        {"token-bucket 10/day", "token-bucket 10/24h"},
        {"token-bucket 10/week", "token-bucket 10/168h"},
        {"token-bucket 7/1m30s", "token-bucket 7/1m30s"},
        {"token-bucket 7/1.5s", "token-bucket 7/1s500ms"},
        {"token-bucket 7/500ms shadow count-denied", "token-bucket 7/500ms count-denied shadow"},
        {"10/sec", "token-bucket 10/s"},
        {"100/second", "token-bucket 100/s"},
        {"10/minute", "token-bucket 10/m"},
        {"1000/hour burst=5", "token-bucket 1000/h burst=5"},
        {"10/hr", "token-bucket 10/h"},
        {"10/days", "token-bucket 10/24h"},
        {"fixed-window 10/days", "fixed-window 10/day"},
        {"fixed-window 10/months", "fixed-window 10/month"},
        {"fixed-window 10/2days", "fixed-window 10/48h"},
        {"10/5minutes", "token-bucket 10/5m"},
        {"10/1hour30mins", "token-bucket 10/1h30m"},
        {"10/250msecs", "token-bucket 10/250ms"},
        {"pacer 10/s max-wait=2seconds", "pacer 10/s max-wait=2s"},
        {"10 per minute", "token-bucket 10/m"},
        {"1.5k per hour burst=20", "token-bucket 1500/h burst=20"},
        {"10 per 5 minutes", "token-bucket 10/5m"},
        {"10 per 5m", "token-bucket 10/5m"},
        {"10 per 1.5 seconds", "token-bucket 10/1s500ms"},
        {"fixed-window 10 per day tz=UTC", "fixed-window 10/day"},
        {"10 per second + 5 per 1 minute shadow", "token-bucket 10/s + token-bucket 5/m shadow"},
        {"100r/s", "token-bucket 100/s"},
        {"leaky-bucket 30r/m capacity=6 delay=0", "leaky-bucket 30/m capacity=6 delay=0"},
        {"10/s fallback=local", "token-bucket 10/s"},
        {"10/s fallback=deny", "token-bucket 10/s fallback=deny"},
        {"10/s full=deny keys=50k", "token-bucket 10/s keys=50000 full=deny"},
        {"10/s keys=1 full=evict", "token-bucket 10/s keys=1 full=evict"},
        {"10/s keys=3000M full=allow", "token-bucket 10/s keys=3000000000 full=allow"},
        {"leaky-bucket 10/s", "leaky-bucket 10/s"},
        {"leaky-bucket 10/s capacity=6 delay=0", "leaky-bucket 10/s capacity=6 delay=0"},
        {"leaky-bucket 10/s delay=none capacity=10", "leaky-bucket 10/s"},
        {"pacer 10/s slack=0 queue=1000 max-wait=forever", "pacer 10/s"},
        {"pacer 10/s slack=2 queue=0 max-wait=0", "pacer 10/s slack=2 queue=0 max-wait=0s"},
        {"smooth-bursty 5/s max-burst=1s", "smooth-bursty 5/s"},
        {"smooth-bursty 5/s max-burst=1m", "smooth-bursty 5/s max-burst=1m"},
        {"smooth-warmup 2/s warmup=4s cold=3", "smooth-warmup 2/s warmup=4s"},
        {"smooth-warmup 2/s cold=2.5 warmup=4s", "smooth-warmup 2/s warmup=4s cold=2.5"},
        {"smooth-warmup 2/s cold=2.025 warmup=4s", "smooth-warmup 2/s warmup=4s cold=2.025"},
        {"min-interval 100ms", "min-interval 100ms"},
        {"sliding-log 5/1m min-interval=1s", "sliding-log 5/m min-interval=1s"},
        {"sliding-window 200/1m slots=10", "sliding-window 200/m"},
        {"sliding-window 200/1m slots=6 per-slot=even", "sliding-window 200/m slots=6 per-slot=34"},
        {"sliding-counter 200/1m", "sliding-counter 200/m"},
        {"fixed-window 200/1m align=first", "fixed-window 200/m"},
        {"fixed-window 200/1m align=clock", "fixed-window 200/m align=clock"},
        {"fixed-window 200/day", "fixed-window 200/day"},
        {"fixed-window 200/24h", "fixed-window 200/24h"},
        {"fixed-window 5/month tz=Europe/Berlin", "fixed-window 5/month tz=Europe/Berlin"},
        {"fixed-window 5/week tz=UTC align=clock", "fixed-window 5/week"},
        {"fixed-window 5/day anchor=6:00", "fixed-window 5/day anchor=06:00"},
        {"fixed-window 5/day anchor=00:00", "fixed-window 5/day"},
        {"fixed-window 5/week anchor=mon", "fixed-window 5/week"},
        {"fixed-window 5/week anchor=7:05", "fixed-window 5/week anchor=07:05"},
        {"fixed-window 5/week anchor=Tuesday", "fixed-window 5/week anchor=tue"},
        {"fixed-window 5/week anchor=TueT21:00", "fixed-window 5/week anchor=tue-21:00"},
        {"fixed-window 5/week anchor=thu-21:00 tz=Europe/Berlin",
         "fixed-window 5/week tz=Europe/Berlin anchor=thu-21:00"},
        {"fixed-window 5/month anchor=1", "fixed-window 5/month"},
        {"fixed-window 5/month anchor=01-06:00", "fixed-window 5/month anchor=06:00"},
        {"fixed-window 5/month anchor=17T06:00", "fixed-window 5/month anchor=17-06:00"},
        {"fixed-window 5/month anchor=31-23:59", "fixed-window 5/month anchor=31-23:59"},
        {"10/s keys=5 warn=80.0% fallback=deny", "token-bucket 10/s fallback=deny warn=80% keys=5"},
        {"fixed-window 5/day warn=0.1%", "fixed-window 5/day warn=0.1%"},
        {"unlimited warn=100%", "unlimited warn=100%"},
        {"10/s after=10 block=60s..60m", "token-bucket 10/s block=1m..1h after=10"},
        {"10/s block=1.5s..1.5s after=1", "token-bucket 10/s block=1s500ms after=1"},
        {"10/s full=deny keys=5 after=1k block=1s warn=9.9% shadow",
         "token-bucket 10/s shadow warn=9.9% block=1s after=1000 keys=5 full=deny"},
        {"10/s burst=20 + fixed-window 1k/day",
         "token-bucket 10/s burst=20 + fixed-window 1000/day"},
        {"token-bucket 1000000000000/1us", "token-bucket 1000000000000/us"},
        {"token-bucket 1/366d", "token-bucket 1/8784h"},
        {"pacer 1/366d", "pacer 1/8784h"},
        {"concurrency 10 queue=0 lease=none", "concurrency 10"},
        {"concurrency 1k queue=5", "concurrency 1000 queue=5"},
        {"concurrency 10 max-wait=1s queue=5", "concurrency 10 queue=5"},
        {"concurrency 10 queue=5 max-wait=forever lease=60s",
         "concurrency 10 queue=5 max-wait=forever lease=1m"},
        {"system rate=5k/s load=2.50 cpu=80.0%", "system cpu=80% load=2.5 rate=5000/s"},
        {"system memory=90% pressure=12.5% rt=0.2s inflight=500",
         "system memory=90% pressure=12.5% rt=200ms inflight=500"},
        {"system rate=10/day cpu=none", "system rate=10/24h"},
        {"breaker", "breaker"},
        {"breaker errors=50% slow=none volume=20 window=10s open=5s probes=1 preset=none",
         "breaker"},
        {"breaker slow=50%/200ms count=5 shadow fallback=deny",
         "breaker slow=50%/200ms count=5 shadow fallback=deny"},
        {"breaker window=100", "breaker window=100"},
        {"breaker window=1.5s", "breaker window=1s500ms"},
        {"breaker window=5m", "breaker window=5m"},
        {"breaker window=0.1k volume=100", "breaker volume=100 window=100"},
        {"breaker window=10", "breaker window=10"}, /* and its volume is 10 */
        {"breaker open=2m", "breaker open=2m"},
        {"breaker open=2m open-max=2m probe-timeout=2m", "breaker open=2m"},
        {"breaker growth=1.50 buckets=5 forced=metrics",
         "breaker buckets=5 growth=1.5 forced=metrics"},
        {"breaker errors=40% preset=hystrix", "breaker preset=hystrix errors=40%"},
        {"breaker preset=resilience4j volume=200", "breaker preset=resilience4j"},
        {"breaker preset=resilience4j window=20s", "breaker preset=resilience4j window=20s"},
        {"breaker preset=resilience4j window=20s buckets=20 slow=100%/1m",
         "breaker preset=resilience4j window=20s"},
        {"breaker preset=sentinel count=3", "breaker preset=sentinel count=3"},
        {"breaker preset=sentinel count=3 errors=50%",
         "breaker preset=sentinel errors=50% count=3"},
        {"breaker preset=sre count-denied errors=40%", "breaker preset=sre"},
        {"bbr", "bbr"},
        {"bbr cpu=80% window=10s buckets=100 cooling=1s", "bbr"},
        {"bbr cpu=none load=4 memory=80%", "bbr cpu=none memory=80% load=4"},
        {"vegas initial=20 max=1000 min=1", "vegas"},
        {"gradient max=500", "gradient max=500"},
        {"aimd max=10", "aimd max=10"},
        {"aimd max=10 min=10 initial=10 timeout=5s", "aimd max=10"},
        {"aimd min=300", "aimd min=300"},
        {"adaptive-rate 1k/s max=10k min=100", "adaptive-rate 1000/s min=100 max=10000"},
        {"adaptive-rate 1k/s max=10k min=100 target=50ms errors=2.5% burst=50 count-denied",
         "adaptive-rate 1000/s min=100 max=10000 target=50ms errors=2.5% burst=50 count-denied"},
        {"100/s + concurrency 5 + system cpu=80%",
         "token-bucket 100/s + concurrency 5 + system cpu=80%"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        struct weir_limit l, back;
        struct weir_diag why = {0};

        print_message("  '%s'\n", ROWS[i].text);
        if (weir_limit_parse(&l, ROWS[i].text, &why) != 0)
            fail_msg("refused: %s", why.text);
        assert_int_equal(weir_limit_print(&l, text, sizeof text), strlen(ROWS[i].canonical));
        assert_string_equal(text, ROWS[i].canonical);
        assert_int_equal(weir_limit_parse(&back, text, NULL), 0);
        assert_memory_equal(&l, &back, sizeof l);
    }
}

static void refused_texts_say_what_and_where(void **state)
{
#define TB_OPTIONS \
    "(burst, initial, count-denied, shadow, fallback, warn, block, after, keys, full)"
    static const struct {
        const char *text;
        int error, column;
        const char *says; /* part of the message */
    } ROWS[] = {
        {"token-bucket 10/s brust=20", WEIR_ESYNTAX, 19,
         "column 19: unknown option 'brust' for token-bucket; did you mean 'burst'? " TB_OPTIONS},
        {"", WEIR_ESYNTAX, 1, "expected a limit"},
        {"   ", WEIR_ESYNTAX, 4, "expected a limit"},
        {"unlimted", WEIR_ESYNTAX, 1, "did you mean 'unlimited'?"},
        {"unlimited 5/s", WEIR_ESYNTAX, 11, "'5/s' begins another limit"},
        {"0/s burst=5", WEIR_ESYNTAX, 5, "unknown option 'burst' for 0/s; it belongs to"},
        {"0/", WEIR_ESYNTAX, 3, "period ''"},
        {"0/x", WEIR_ESYNTAX, 3, "period 'x' is not valid"},
        {"0", WEIR_ESYNTAX, 1, "'0' has no period"},
        {"0.0/s", WEIR_ERANGE, 1, "the limit 0/s refuses all"},
        {"token-bucket 0/s", WEIR_ERANGE, 14, "expected 1 or more; the limit 0/s refuses all"},
        {"fixed-window 0/day", WEIR_ERANGE, 14, "the limit 0/s refuses all"},
        {"tokenbucket 10/s", WEIR_ESYNTAX, 1, "did you mean 'token-bucket'?"},
        {"10", WEIR_ESYNTAX, 1, "'10' has no period; expected COUNT/PERIOD, such as 10/s"},
        {"10/s+5/m", WEIR_ESYNTAX, 4, "a space before and after the +"},
        {"smooth-warmup 1000000000000/4s warmup=4000001us", WEIR_ERANGE, 32,
         "more than 1000000000000 permits"},
        {"fixed-window 5/day tz=Europe//Berlin", WEIR_ENOZONE, 23, "is not valid"},
        {"fixed-window 5/day tz=right/Europe/Berlin", WEIR_ENOZONE, 23, "is not valid"},
        {"banana", WEIR_ESYNTAX, 1, "unknown algorithm 'banana' (fixed-window, "},
        {"token-bucket", WEIR_ESYNTAX, 13, "expected COUNT/PERIOD after token-bucket"},
        {"token-bucket 10", WEIR_ESYNTAX, 14,
         "expected COUNT/PERIOD after token-bucket, such as 10/s, not '10'"},
        {"min-interval", WEIR_ESYNTAX, 13, "expected a duration after min-interval"},
        {"min-interval 10/s", WEIR_ESYNTAX, 14, "interval '10/s' is not valid"},
        {"-5/s", WEIR_ERANGE, 1, "count '-5'"},
        {"1000000000001/s", WEIR_ERANGE, 1, "count '1000000000001'"},
        {"99999999999999999999/s", WEIR_ERANGE, 1, "out of range"},
        {"1.5/s", WEIR_ESYNTAX, 1, "count '1.5' is not valid"},
        {"x/s", WEIR_ESYNTAX, 1, "count 'x' is not valid"},
        {"10/0s", WEIR_ERANGE, 4, "period '0s' is out of range"},
        {"10/-1s", WEIR_ERANGE, 4, "period '-1s' is out of range"},
        {"10/", WEIR_ESYNTAX, 4, "period '' is not valid"},
        {"10/999ns", WEIR_ERANGE, 4, "period '999ns' is out of range"},
        {"10/ns", WEIR_ESYNTAX, 4, "period 'ns'"},
        {"10/367d", WEIR_ERANGE, 4, "out of range"},
        {"10/0.5us", WEIR_ERANGE, 4, "out of range"},
        {"10/1000.5ns", WEIR_ESYNTAX, 4, "whole nanoseconds"},
        {"10/month", WEIR_ESYNTAX, 4, "only a fixed-window follows"},
        {"10/fortnight", WEIR_ESYNTAX, 4, "period 'fortnight' is not valid"},
        {"10/MINUTE", WEIR_ESYNTAX, 4, "period 'MINUTE' is not valid"},
        {"10/minutess", WEIR_ESYNTAX, 4, "period 'minutess' is not valid"},
        {"10/2months", WEIR_ESYNTAX, 4, "period '2months' is not valid"},
        {"r/s", WEIR_ESYNTAX, 1, "count 'r' is not valid"},
        {"1rr/s", WEIR_ESYNTAX, 1, "count '1rr' is not valid"},
        {"10 per", WEIR_ESYNTAX, 7, "expected a period after 'per'"},
        {"10 per 5", WEIR_ESYNTAX, 9, "expected a period after 'per'"},
        {"10 per + 5/s", WEIR_ESYNTAX, 8, "expected a period after 'per'"},
        {"10 per fortnight", WEIR_ESYNTAX, 8, "period 'fortnight' is not valid"},
        {"10 per 5 fortnights", WEIR_ESYNTAX, 10, "unit 'fortnights' is not valid"},
        {"10 per 0 seconds", WEIR_ERANGE, 8, "period '0' is out of range"},
        {"10 per 367 days", WEIR_ERANGE, 8, "period '367' is out of range"},
        {"10 per 0.0000000001 seconds", WEIR_ESYNTAX, 8, "period '0.0000000001'"},
        {"x per minute", WEIR_ESYNTAX, 1, "unknown algorithm 'x'"},
        {"concurrency 10 per minute", WEIR_ESYNTAX, 16, "unknown option 'per' for concurrency"},
        {"min-interval 10 per minute", WEIR_ESYNTAX, 14, "interval '10' is not valid"},
        {"10/s burst", WEIR_ESYNTAX, 6, "option 'burst' needs a value"},
        {"10/s burst=", WEIR_ESYNTAX, 12, "burst='' is not valid"},
        {"10/s burst=0", WEIR_ERANGE, 12, "burst='0' is out of range; expected 1 .. 1000000000000"},
        {"10/s burst=5 burst=5", WEIR_ESYNTAX, 14, "option 'burst' is given twice"},
        {"10/s shadow shadow", WEIR_ESYNTAX, 13, "option 'shadow' is given twice"},
        {"10/s shadow=yes", WEIR_ESYNTAX, 6, "option 'shadow' takes no value"},
        {"10/s slots=3", WEIR_ESYNTAX, 6,
         "unknown option 'slots' for token-bucket; it belongs to sliding-window " TB_OPTIONS},
        {"10/s junk", WEIR_ESYNTAX, 6, "unknown option 'junk' for token-bucket " TB_OPTIONS},
        {"10/s 20", WEIR_ESYNTAX, 6, "unknown option '20'"},
        {"10/s bu=3", WEIR_ESYNTAX, 6, "unknown option 'bu' for token-bucket " TB_OPTIONS},
        {"10/s burst=5, shadow", WEIR_ESYNTAX, 12,
         "burst='5,' is not valid; expected spaces between options, and ' + ' between limits"},
        {"10/s initial=11", WEIR_ERANGE, 6, "initial may not exceed burst"},
        {"10/s burst=1k initial=1001", WEIR_ERANGE, 15, "initial may not exceed burst"},
        {"10/s fallback=maybe", WEIR_ESYNTAX, 15,
         "fallback='maybe' is not valid; expected local, allow or deny"},
        {"10/s keys=0", WEIR_ERANGE, 11, "keys='0' is out of range; expected 1 .. 3000000000"},
        {"10/s keys=3000000001", WEIR_ERANGE, 11,
         "keys='3000000001' is out of range; expected 1 .. 3000000000"},
        {"10/s full=grow", WEIR_ESYNTAX, 11,
         "full='grow' is not valid; expected evict, deny or allow"},
        {"10/s full=deny full=deny", WEIR_ESYNTAX, 16, "option 'full' is given twice"},
        {"1/366d burst=1000", WEIR_ERANGE, 8, "146 years"},
        {"leaky-bucket 10/s delay=11", WEIR_ERANGE, 19, "delay may not exceed capacity"},
        {"pacer 1/366d slack=1000", WEIR_ERANGE, 14, "146 years"},
        {"pacer 10/s max-wait=soon", WEIR_ESYNTAX, 21,
         "max-wait='soon' is not valid; expected forever"},
        {"sliding-log 65537/s", WEIR_ERANGE, 13, "expected 1 .. 65536"},
        {"sliding-window 10/s slots=7", WEIR_ERANGE, 21,
         "slots=7 does not divide the period of 1s"},
        {"sliding-window 10/1001ns", WEIR_ERANGE, 16, "slots=10 does not divide"},
        {"sliding-window 10/s slots=1001", WEIR_ERANGE, 27, "expected 1 .. 1000"},
        {"sliding-window 10/s per-slot=11", WEIR_ERANGE, 21, "per-slot may not exceed the count"},
        {"smooth-warmup 2/s", WEIR_ESYNTAX, 15, "needs warmup="},
        {"smooth-warmup 2/s warmup=0s", WEIR_ERANGE, 26, "warmup='0s' is out of range"},
        {"smooth-warmup 2/s warmup=4s cold=0.5", WEIR_ERANGE, 34, "cold='0.5' is out of range"},
        {"smooth-warmup 2/s warmup=4s cold=2.0001", WEIR_ESYNTAX, 34, "at most three decimals"},
        {"smooth-bursty 1000M/s max-burst=366d", WEIR_ERANGE, 23,
         "more than 1000000000000 permits"},
        {"fixed-window 5/day align=first", WEIR_ESYNTAX, 20, "write 24h"},
        {"fixed-window 5/24h anchor=06:00", WEIR_ESYNTAX, 27,
         "anchor needs a window of the calendar"},
        {"fixed-window 5/h align=clock anchor=06:00", WEIR_ESYNTAX, 37,
         "period day, week or month"},
        {"sliding-log 5/day anchor=06:00", WEIR_ESYNTAX, 19, "it belongs to fixed-window"},
        {"fixed-window 5/day anchor=17", WEIR_ESYNTAX, 27,
         "anchor='17' is not valid; expected 06:00"},
        {"fixed-window 5/day anchor=thu", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/day anchor=24:00", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/day anchor=06:60", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/day anchor=6", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/day anchor=06:0", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/day anchor=006:00", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/day anchor=:00", WEIR_ESYNTAX, 27, "is not valid"},
        {"fixed-window 5/week anchor=t", WEIR_ESYNTAX, 28, "is not valid"},
        {"fixed-window 5/week anchor=thur", WEIR_ESYNTAX, 28, "is not valid"},
        {"fixed-window 5/week anchor=thu-", WEIR_ESYNTAX, 28, "is not valid"},
        {"fixed-window 5/week anchor=-21:00", WEIR_ESYNTAX, 28, "is not valid"},
        {"10/s warn=80", WEIR_ESYNTAX, 11, "has no %; expected 0.1% .. 100%"},
        {"10/s warn=0%", WEIR_ERANGE, 11, "out of range"},
        {"10/s warn=100.1%", WEIR_ERANGE, 11, "out of range"},
        {"10/s warn=10% warn=10%", WEIR_ESYNTAX, 15, "is given twice"},
        {"concurrency 5 warn=80%", WEIR_ESYNTAX, 15, "warn is for rates"},
        {"10/s block=1m", WEIR_ESYNTAX, 6, "block needs after=, such as after=10"},
        {"10/s after=10", WEIR_ESYNTAX, 6, "after needs block=, such as block=1m..1h"},
        {"10/s block=1h..1m after=1", WEIR_ERANGE, 12, "out of range; expected a duration, or two"},
        {"10/s block=1m.. after=1", WEIR_ESYNTAX, 12, "is not valid; expected a duration, or two"},
        {"10/s block=..1m after=1", WEIR_ESYNTAX, 12, "is not valid"},
        {"10/s block=1m...1h after=1", WEIR_ESYNTAX, 12, "is not valid"},
        {"10/s block=0s after=1", WEIR_ERANGE, 12, "out of range"},
        {"10/s block=1s..367d after=1", WEIR_ERANGE, 12, "out of range"},
        {"10/s block=5 after=1", WEIR_ESYNTAX, 12, "is not valid; expected a duration"},
        {"10/s block=1m after=0", WEIR_ERANGE, 21, "expected 1 .. 1000000"},
        {"10/s block=1m after=1 count-denied", WEIR_ESYNTAX, 23, "exclude each other"},
        {"unlimited block=1m after=1", WEIR_ESYNTAX, 11, "block does not apply here"},
        {"breaker after=1", WEIR_ESYNTAX, 9, "block and after are for rates"},
        {"breaker warn=80%", WEIR_ESYNTAX, 9, "warn is for rates"},
        {"fixed-window 5/month anchor=0", WEIR_ESYNTAX, 29, "17 or 17-06:00 for a month"},
        {"fixed-window 5/month anchor=32", WEIR_ESYNTAX, 29, "is not valid"},
        {"fixed-window 5/month anchor=017", WEIR_ESYNTAX, 29, "is not valid"},
        {"fixed-window 5/month anchor=17-6", WEIR_ESYNTAX, 29, "is not valid"},
        {"fixed-window 5/h tz=Europe/Berlin", WEIR_ESYNTAX, 18, "tz needs align=clock"},
        {"fixed-window 5/day tz=Mars/Base", WEIR_ENOZONE, 23, "tz='Mars/Base' is not valid"},
        {"fixed-window 5/day tz=../../../etc/passwd", WEIR_ENOZONE, 23, "is not valid"},
        {"fixed-window 5/day tz=/etc/localtime", WEIR_ENOZONE, 23, "is not valid"},
        {"concurrency", WEIR_ESYNTAX, 12, "expected a count after concurrency, such as 10"},
        {"concurrency 10/s", WEIR_ESYNTAX, 13, "a count after concurrency, such as 10, not '10/s'"},
        {"concurrency 0", WEIR_ERANGE, 13, "count '0' is out of range"},
        {"concurrency + 10/s", WEIR_ESYNTAX, 13, "expected a count after concurrency"},
        {"concurrency 10 max-wait=1s", WEIR_ESYNTAX, 16, "max-wait needs queue="},
        {"concurrency 65537 lease=1s", WEIR_ERANGE, 19, "with a lease the count is at most 65536"},
        {"concurrency 10 count-denied", WEIR_ESYNTAX, 16, "count-denied does not apply here"},
        {"breaker count-denied", WEIR_ESYNTAX, 9, "count-denied does not apply here"},
        {"system", WEIR_ESYNTAX, 1, "system needs at least one signal, such as cpu=80%"},
        {"10/s + system shadow", WEIR_ESYNTAX, 8, "system needs at least one signal"},
        {"system cpu=80", WEIR_ESYNTAX, 12,
         "cpu='80' has no %; expected none or a share such as 80% or 12.5% (0.1% .. 100%)"},
        {"breaker errors=0.5", WEIR_ESYNTAX, 16, "errors='0.5' has no %; expected none or a share"},
        {"system cpu=%", WEIR_ESYNTAX, 12, "cpu='%' is not valid"},
        {"system cpu=0%", WEIR_ERANGE, 12, "cpu='0%' is out of range"},
        {"system cpu=100.1%", WEIR_ERANGE, 12,
         "cpu='100.1%' is out of range; expected none or a share such as 80% or 12.5% (0.1% .. "
         "100%)"},
        {"system cpu=12.55%", WEIR_ESYNTAX, 12, "cpu='12.55%' is not valid"},
        {"system rate=5", WEIR_ESYNTAX, 13,
         "rate='5' is not valid; expected none or COUNT/PERIOD, such as 5k/s"},
        {"system rate=x/s", WEIR_ESYNTAX, 13, "count 'x' is not valid"},
        {"system rate=5/month", WEIR_ESYNTAX, 15, "period 'month' is not valid"},
        {"system load=0", WEIR_ERANGE, 13, "such as 8 or 0.5 (0.001 .. 1000000)"},
        {"system qps=4", WEIR_ESYNTAX, 8,
         "unknown option 'qps' for system (cpu, load, memory, pressure, rt, inflight, rate, "
         "shadow, fallback, keys, full)"},
        {"breaker 10/s", WEIR_ESYNTAX, 9, "'10/s' begins another limit; expected ' + ' before it"},
        {"concurrency 4 queue=10 breaker", WEIR_ESYNTAX, 24, "'breaker' begins another limit"},
        {"concurrency 4+breaker", WEIR_ESYNTAX, 13,
         "count '4+breaker' is not valid; expected a space before and after the + between limits"},
        {"concurrency 4 queue=1+breaker", WEIR_ESYNTAX, 21, "a space before and after the +"},
        {"concurrency 4 queue=1 max-wait=100", WEIR_ESYNTAX, 32,
         "max-wait='100' has no unit; expected forever or a duration such as 5s or 100ms"},
        {"circuit-breaker", WEIR_ESYNTAX, 1, "did you mean 'breaker'?"},
        {"breaker open=5", WEIR_ESYNTAX, 14,
         "open='5' has no unit; expected a duration such as 5s or 100ms (1us .. 366 days)"},
        {"breaker errors=none", WEIR_ESYNTAX, 9,
         "the breaker would never open: give errors=, slow= or count="},
        {"breaker slow=50%", WEIR_ESYNTAX, 14,
         "expected none or a share and a duration, such as 50%/200ms"},
        {"breaker slow=50%/0s", WEIR_ERANGE, 14, "slow='50%/0s' is out of range"},
        {"breaker slow=200ms/50%", WEIR_ESYNTAX, 14, "slow='200ms/50%' is not valid"},
        {"breaker window=0", WEIR_ERANGE, 16, "window='0' is out of range"},
        {"breaker window=0s", WEIR_ERANGE, 16, "a duration such as 10s (1us .. 366 days), or"},
        {"breaker window=65537", WEIR_ERANGE, 16, "or a number of calls, 1 .. 65536"},
        {"breaker window=1.5", WEIR_ESYNTAX, 16, "window='1.5' is not valid"},
        {"breaker window=", WEIR_ESYNTAX, 16, "window='' is not valid"},
        {"breaker window=ten", WEIR_ESYNTAX, 16, "window='ten' is not valid"},
        {"breaker window=7s buckets=3", WEIR_ERANGE, 19,
         "buckets=3 does not divide the window of 7s"},
        {"breaker window=100 buckets=5", WEIR_ESYNTAX, 20, "buckets needs a window of time"},
        {"breaker window=100 volume=101", WEIR_ERANGE, 20, "volume may not exceed the window"},
        {"breaker open=2m open-max=1m", WEIR_ERANGE, 17, "open-max may not be less than open"},
        {"breaker preset=netflix", WEIR_ESYNTAX, 16,
         "preset='netflix' is not valid; expected none, hystrix, resilience4j, sentinel or sre"},
        {"breaker preset=sre open=5s", WEIR_ESYNTAX, 20,
         "preset=sre throttles by the share of errors"},
        {"breaker preset=sre window=100", WEIR_ESYNTAX, 20, "preset=sre needs a window of time"},
        {"breaker preset=sre errors=100%", WEIR_ERANGE, 20, "a share of errors below 100%"},
        {"bbr buckets=1", WEIR_ERANGE, 13, "buckets='1' is out of range; expected 2 .. 1000"},
        {"bbr min=3", WEIR_ESYNTAX, 5,
         "unknown option 'min' for bbr; it belongs to vegas, gradient, aimd, adaptive-rate (cpu, "},
        {"bbr cpu=none", WEIR_ESYNTAX, 5, "bbr needs one of cpu=, memory= and load="},
        {"bbr buckets=3 window=1s", WEIR_ERANGE, 5, "buckets=3 does not divide the window of 1s"},
        {"vegas timeout=1s", WEIR_ESYNTAX, 7,
         "unknown option 'timeout' for vegas; it belongs to aimd"},
        {"aimd min=300 max=200", WEIR_ERANGE, 6, "min may not exceed max"},
        {"aimd initial=5", WEIR_ERANGE, 6, "initial must lie within min and max"},
        {"adaptive-rate", WEIR_ESYNTAX, 14, "expected COUNT/PERIOD after adaptive-rate"},
        {"adaptive-rate 1k/s max=10k", WEIR_ESYNTAX, 15, "needs min= and max=, such as min=100"},
        {"adaptive-rate 1k/s min=2k max=10k", WEIR_ERANGE, 20, "must lie within min and max"},
        {"adaptive-rate 1k/s min=1 max=999", WEIR_ERANGE, 26, "must lie within min and max"},
        {"10/s +", WEIR_ESYNTAX, 7, "expected a limit"},
        {"+ 10/s", WEIR_ESYNTAX, 1, "unknown algorithm '+'"},
        {"1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s + 1/s "
         "+ 1/s + 1/s",
         WEIR_ERANGE, 97, "at most 16 terms"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir_diag why = {0};
        struct weir_limit l, before;

        memset(&l, 0x5a, sizeof l);
        before = l;
        print_message("  '%s'\n", ROWS[i].text);
        assert_int_equal(weir_limit_parse(&l, ROWS[i].text, &why), ROWS[i].error);
        assert_int_equal(why.column, ROWS[i].column);
        if (!strstr(why.text, ROWS[i].says))
            fail_msg("expected '%s' in '%s'", ROWS[i].says, why.text);
        assert_memory_equal(&l, &before, sizeof l); /* a refusal changes nothing */
        assert_int_equal(weir_limit_parse(&l, ROWS[i].text, NULL), ROWS[i].error);
    }
}

static void a_long_text_is_refused_and_a_long_word_is_cut(void **state)
{
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_diag why;
    struct weir_limit l;

    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(weir_limit_parse(&l, text, &why), WEIR_ERANGE);
    text[WEIR_LIMIT_TEXT_MAX - 1] = '\0';
    assert_int_equal(weir_limit_parse(&l, text, &why), WEIR_ESYNTAX);
    assert_non_null(strstr(why.text, "...'"));
    assert_true(strlen(why.text) < sizeof why.text);
}

/* Sixteen terms that print longer than they are written. */
static void a_limit_whose_canonical_text_is_too_long_is_refused(void **state)
{
    char text[WEIR_LIMIT_TEXT_MAX] = "";
    struct weir_diag why;
    struct weir_limit l;

    (void)state;
    for (int i = 0; i < 16; i++)
        (void)snprintf(
            text + strlen(text), sizeof text - strlen(text),
            "%sbreaker preset=resilience4j errors=9.9%% slow=9.9%%/99.12345678d count=1M "
            "volume=1M window=99.12345678d buckets=1 open=99.12345678d "
            "open-max=99.12345679d growth=33.333 probes=1M probe-timeout=99.12345678d "
            "forced=metrics shadow fallback=allow",
            i > 0 ? " + " : "");
    assert_true(strlen(text) < sizeof text - 1);
    assert_int_equal(weir_limit_parse(&l, text, &why), WEIR_ERANGE);
    assert_non_null(strstr(why.text, "canonical form"));
    *strrchr(text, '+') = '\0'; /* one less, and another */
    *strrchr(text, '+') = '\0';
    assert_int_equal(weir_limit_parse(&l, text, &why), 0);
}

static void printing_into_too_little_room_still_ends_the_text(void **state)
{
    struct weir_limit l;
    char text[8];

    (void)state;
    assert_int_equal(weir_limit_parse(&l, "100/s", NULL), 0);
    assert_int_equal(weir_limit_print(&l, text, sizeof text), 18);
    assert_string_equal(text, "token-b");
    assert_int_equal(weir_limit_print(&l, NULL, 0), 18);
}

static void errors_and_reasons_have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(weir_error_name(WEIR_ESYNTAX), "WEIR_ESYNTAX");
    assert_string_equal(weir_error_text(WEIR_ENOZONE), "no such time zone");
    assert_string_equal(weir_error_name(0), "OK");
    assert_string_equal(weir_error_text(-999), "unknown error");
    assert_string_equal(weir_reason_name(WEIR_TOO_BIG), "TOO_BIG");
    assert_string_equal(weir_guard_state_name(WEIR_OPENED), "open");
    assert_string_equal(weir_guard_state_name(WEIR_HALF_OPEN), "half-open");
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(accepted_texts_print_in_canonical_form),
    cmocka_unit_test(refused_texts_say_what_and_where),
    cmocka_unit_test(a_long_text_is_refused_and_a_long_word_is_cut),
    cmocka_unit_test(a_limit_whose_canonical_text_is_too_long_is_refused),
    cmocka_unit_test(printing_into_too_little_room_still_ends_the_text),
    cmocka_unit_test(errors_and_reasons_have_names_and_texts),
};

RUN("grammar", TESTS)
