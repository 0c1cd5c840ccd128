/* Unit tests of the readers of logs: times, patterns, JSON, logfmt, tables, templates, order. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "sim/log/fields.h"
#include "sim/picture/timeline.h"
#include "sim/replay/arrivals.h"
#include "sim/replay/window.h"

#define S INT64_C(1000000000)

static void times_are_read_exactly_or_refused(void **state)
{
    static const struct {
        const char *text;
        enum log_clock clock;
        int64_t ns; /* -1: refused */
    } ROWS[] = {
        {"0", LOG_TIME_AUTO, 0},
        {"1431857103", LOG_TIME_AUTO, 1431857103 * S},
        {"1431857103.25", LOG_TIME_AUTO, 1431857103 * S + 250000000},
        {"1431857103250", LOG_TIME_AUTO, 1431857103 * S + 250000000},
        {"1431857103250999", LOG_TIME_AUTO, 1431857103 * S + 250999000},
        {"1431857103250999001", LOG_TIME_AUTO, 1431857103 * S + 250999001},
        {"1431857103250.5", LOG_TIME_MS, 1431857103 * S + 250500000},
        {"5", LOG_TIME_MS, 5000000},
        {"5.9", LOG_TIME_NS, 5},
        {"2015-05-17T10:05:03Z", LOG_TIME_AUTO, 1431857103 * S},
        {"2015-05-17T10:05:03", LOG_TIME_AUTO, 1431857103 * S},
        {"2015-05-17 10:05:03", LOG_TIME_AUTO, 1431857103 * S},
        {"2015-05-17 10:05:03 UTC", LOG_TIME_AUTO, 1431857103 * S},
        {"2015/05/17 10:05:03", LOG_TIME_AUTO, 1431857103 * S},
        {"2015-05-17 10:05:03,250", LOG_TIME_AUTO, 1431857103 * S + 250000000},
        {"2015-05-17T12:05:03.25+02:00", LOG_TIME_AUTO, 1431857103 * S + 250000000},
        {"2015-05-17T03:05:03-0700", LOG_TIME_AUTO, 1431857103 * S},
        {"2015-05-17T03:05:03-07", LOG_TIME_AUTO, 1431857103 * S},
        {"2015-05-17T10:05", LOG_TIME_AUTO, 1431857100 * S},
        {"2015-05-17", LOG_TIME_AUTO, 1431820800 * S},
        {"2023-11-16 18:15:46.6805900", LOG_TIME_AUTO, 1700158546 * S + 680590000},
        {"2024-02-29T00:00:00Z", LOG_TIME_AUTO, 1709164800 * S},
        {"17/May/2015:10:05:03 +0000", LOG_TIME_AUTO, 1431857103 * S},
        {"[17/May/2015:12:05:03 +0200]", LOG_TIME_AUTO, 1431857103 * S},
        {"17/May/2015:10:05:03.250 +0000", LOG_TIME_CLF, 1431857103 * S + 250000000},
        {"", LOG_TIME_AUTO, -1},
        {"-", LOG_TIME_AUTO, -1},
        {"-5", LOG_TIME_AUTO, -1},
        {"12x", LOG_TIME_AUTO, -1},
        {"1.2.3", LOG_TIME_AUTO, -1},
        {"99999999999999999999", LOG_TIME_AUTO, -1},
        {"9223372036854775807", LOG_TIME_AUTO, -1},
        {"1969-12-31T23:59:59Z", LOG_TIME_AUTO, -1},
        {"1970-01-01T00:00:00+02:00", LOG_TIME_AUTO, -1},
        {"2015-02-29", LOG_TIME_AUTO, -1},
        {"2015-13-01", LOG_TIME_AUTO, -1},
        {"2015-05-17T25:00:00", LOG_TIME_AUTO, -1},
        {"2015-05-17T10:05:03 nowhere", LOG_TIME_AUTO, -1},
        {"17/Mai/2015:10:05:03 +0000", LOG_TIME_AUTO, -1},
        {"9999-12-31T00:00:00Z", LOG_TIME_AUTO, -1},
        {"17/May/2015:10:05:03 +0000", LOG_TIME_ISO, -1},
        {"1431857103", LOG_TIME_CLF, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        int64_t ns = -7;
        const bool read = log_time_parse(weir__slice_of(ROWS[i].text), ROWS[i].clock, &ns);

        print_message("  '%s'\n", ROWS[i].text);
        assert_int_equal(read, ROWS[i].ns >= 0);
        if (read)
            assert_int_equal(ns, ROWS[i].ns);
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

#define CLF   "192.0.2.7 - frank [17/May/2015:10:05:03 +0000] "
#define AGENT "\"-\" \"curl/8\""

struct line_row {
    const char *sentence;
    const char *format, *columns, *key, *time, *cost;
    const char *header; /* the sample's first line, or NULL: the line itself */
    const char *line;
    enum log_fault fault;
    const char *wants_key; /* of a line that is read */
    int64_t wants_cost;
    int wants_status;
};

static const struct line_row LINES[] = {
    {"combined", .line = CLF "\"GET /a HTTP/1.1\" 200 512 " AGENT, .wants_key = "192.0.2.7",
     .wants_cost = 1, .wants_status = 200},
    {"common", .line = CLF "\"GET /a HTTP/1.1\" 404 -", .wants_key = "192.0.2.7", .wants_cost = 1,
     .wants_status = 404},
    {"combined with more behind it", .line = CLF "\"GET / HTTP/1.1\" 429 5 " AGENT " 0.003 x",
     .wants_key = "192.0.2.7", .wants_cost = 1, .wants_status = 429},
    {"an IPv6 address",
     .line = "2001:db8::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/2\" "
             "200 1 " AGENT,
     .wants_key = "2001:db8::1", .wants_cost = 1, .wants_status = 200},
    {"the host before the address",
     .line = "www.example.org:443 " CLF "\"GET / HTTP/2\" 200 1 " AGENT, .wants_key = "192.0.2.7",
     .wants_cost = 1, .wants_status = 200},
    {"a user with a blank", .line = "::1 - a b [17/May/2015:10:05:03 +0000] \"GET / HTTP/2\" 200 1",
     .wants_key = "::1", .wants_cost = 1, .wants_status = 200},
    {"escaped quotes in the agent", .format = "combined", .key = "http_user_agent",
     .line = CLF "\"GET / HTTP/1.1\" 200 1 \"-\" \"a \\\" \\\\\"", .wants_key = "a \\\" \\\\",
     .wants_cost = 1, .wants_status = 200},
    {"a bare quote in the referer", .format = "combined", .key = "http_user_agent",
     .line = CLF "\"GET / HTTP/1.1\" 200 1 \"a\"b\" \"agent\"", .wants_key = "agent",
     .wants_cost = 1, .wants_status = 200},
    {"a request that is garbage", .format = "combined",
     .line = CLF "\"\\x16\\x03\\x01\" 400 0 " AGENT, .wants_key = "192.0.2.7", .wants_cost = 1,
     .wants_status = 400},
    {"a path as the key", .key = "{ip} {path}", .line = CLF "\"GET /a?q=1 HTTP/1.1\" 200 1 " AGENT,
     .wants_key = "192.0.2.7 /a", .wants_cost = 1, .wants_status = 200},
    {"a method as the key", .key = "method", .line = CLF "\"PUT /a?q=1 HTTP/1.1\" 200 1 " AGENT,
     .wants_key = "PUT", .wants_cost = 1, .wants_status = 200},
    {"bytes as the cost", .cost = "body_bytes_sent",
     .line = CLF "\"GET / HTTP/1.1\" 200 512 " AGENT, .wants_key = "192.0.2.7", .wants_cost = 512,
     .wants_status = 200},
    {"- bytes are none", .format = "common", .cost = "body_bytes_sent",
     .line = CLF "\"GET / HTTP/1.1\" 200 -", .wants_key = "192.0.2.7", .wants_cost = 0,
     .wants_status = 200},
    {"values of a key of two are told apart", .key = "{remote_user}:{logname}",
     .line = "::1 %:b a: [17/May/2015:10:05:03 +0000] \"GET / HTTP/2\" 200 1",
     .wants_key = "a%3A:%25:b", .wants_cost = 1, .wants_status = 200},
    {"a line that is cut off", .format = "combined", .line = "192.0.2.7 - - [17/May/20",
     .fault = LOG_NOT_FORMAT},
    {"a time that is none", .format = "common",
     .line = "::1 - - [yesterday] \"GET / HTTP/2\" 200 1", .fault = LOG_NO_TIME},
    {"a cost that is none", .format = "common", .cost = "body_bytes_sent",
     .line = CLF "\"GET / HTTP/1.1\" 200 many", .fault = LOG_NO_COST},
    {"a negative cost", .format = "common", .cost = "body_bytes_sent",
     .line = CLF "\"GET / HTTP/1.1\" 200 -5", .fault = LOG_NO_COST},

    {"an nginx log_format", .format = "$msec|$remote_addr|$request_time|\"$http_user_agent\"",
     .line = "1431857103.250|192.0.2.7|0.01|\"x\"", .wants_key = "192.0.2.7", .wants_cost = 1},
    {"a log_format as nginx.conf has it",
     .format =
         "log_format main escape=default '$remote_addr [$time_iso8601] ' '\"$request\" ${status}';",
     .line = "192.0.2.7 [2015-05-17T10:05:03+00:00] \"GET / HTTP/1.1\" 503",
     .wants_key = "192.0.2.7", .wants_cost = 1, .wants_status = 503},

    {"JSON", .line = "{\"time\":\"2015-05-17T10:05:03Z\",\"ip\":\"192.0.2.7\",\"status\":200}",
     .wants_key = "192.0.2.7", .wants_cost = 1, .wants_status = 200},
    {"JSON with blanks, a list and a nested object",
     .line = " { \"ts\" : 1431857103.25 , \"x\" : [ 1, { \"ip\" : 2 } ] , \"request\" : "
             "{ \"remote_ip\" : \"::1\" , \"h\" : {} } , \"status\" : 429 } ",
     .wants_key = "::1", .wants_cost = 1, .wants_status = 429},
    {"JSON with escapes", .key = "user", .line = "{\"ts\":1,\"user\":\"a\\\"b\\\\ \\u00e9\\n\"}",
     .wants_key = "a\"b\\ \xc3\xa9\n", .wants_cost = 1},
    {"the first value of a list", .key = "agent", .line = "{\"ts\":1,\"agent\":[\"x\",\"y\"]}",
     .wants_key = "x", .wants_cost = 1},
    {"names in any case", .key = "USER", .line = "{\"Timestamp\":1,\"User\":\"x\"}",
     .wants_key = "x", .wants_cost = 1},
    {"costs are added up, and rounded up", .key = "u", .cost = "in+out",
     .line = "{\"ts\":1,\"u\":\"x\",\"in\":3,\"out\":1.2}", .wants_key = "x", .wants_cost = 5},
    {"a key that is null", .format = "json", .key = "u", .line = "{\"ts\":1,\"u\":null}",
     .fault = LOG_NO_KEY},
    {"JSON that is cut off", .format = "json", .line = "{\"ts\":1,\"ip\":\"x\"",
     .header = "{\"ts\":1,\"ip\":\"x\"}", .fault = LOG_NOT_FORMAT},
    {"JSON with something behind it", .format = "json", .line = "{\"ts\":1,\"ip\":\"x\"} x",
     .header = "{\"ts\":1,\"ip\":\"x\"}", .fault = LOG_NOT_FORMAT},

    {"logfmt", .line = "time=2015-05-17T10:05:03Z level=info ip=::1 msg=\"a \\\"b\\\"\" status=200",
     .wants_key = "::1", .wants_cost = 1, .wants_status = 200},
    {"logfmt with an escape", .key = "msg", .line = "ts=5 msg=\"a \\\"b\\\" c\" x",
     .wants_key = "a \"b\" c", .wants_cost = 1},
    {"a quote of logfmt that is open", .format = "logfmt", .key = "msg", .line = "ts=5 msg=\"a",
     .fault = LOG_NOT_FORMAT},

    {"CSV", .header = "time,ip,tokens", .cost = "tokens", .line = "1431857103,192.0.2.7,12",
     .wants_key = "192.0.2.7", .wants_cost = 12},
    {"CSV in quotes", .header = "\"time\",\"user\"", .line = "\"5\",\"a \"\"b\"\", c\"",
     .wants_key = "a \"b\", c", .wants_cost = 1},
    {"CSV with semicolons", .header = "time;user", .line = "5;x", .wants_key = "x",
     .wants_cost = 1},
    {"CSV with a byte order mark", .header = "\xef\xbb\xbftime,user", .line = "5,x",
     .wants_key = "x", .wants_cost = 1},
    {"TSV, where quotes are text", .header = "host\ttime\tresponse", .line = "\"a\t5\t200",
     .wants_key = "\"a", .wants_cost = 1, .wants_status = 200},
    {"CSV without names", .columns = "time,user,n", .cost = "n", .line = "5,x,7", .wants_key = "x",
     .wants_cost = 7},
    {"two columns are the time", .header = "date,clock,ip", .time = "{date} {clock}",
     .line = "2015-05-17,10:05:03,::1", .wants_key = "::1", .wants_cost = 1},
    {"no column says who", .header = "TIMESTAMP,Tokens", .line = "5,7", .wants_key = "all",
     .wants_cost = 1},
    {"a row that is too short", .header = "time,user,n", .cost = "n", .line = "5,x",
     .fault = LOG_NOT_FORMAT},
    {"a row with an empty key", .header = "time,user", .line = "5,", .fault = LOG_NO_KEY},
};

static void lines_become_events(void **state)
{
    static struct log_values values;
    static struct log_format format;
    char key[LOG_KEY_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        const struct line_row *const r = &LINES[i];
        const struct log_sample sample = {1, {weir__slice_of(r->header ? r->header : r->line)}};
        const struct log_names names = {r->time, r->key, r->cost, NULL, LOG_TIME_AUTO};
        const size_t len = strlen(r->line);
        char *const copy = malloc(len + 1); /* so that a sanitizer sees a byte too far */
        struct log_fields fields;
        struct sim_error error = {""};
        struct log_event e;
        bool chosen;

        print_message("  %s\n", r->sentence);
        assert_non_null(copy);
        memcpy(copy, r->line, len);
        chosen = log_format_choose(&format, r->format, r->columns, &sample, &error) &&
                 log_fields_choose(&fields, &format, &names, &sample, &error);
        if (!chosen)
            print_message("    %s\n", error.text);
        assert_true(chosen);
        assert_int_equal(
            log_event_read(&fields, &format, (struct weir__slice){copy, len}, &values, key, &e),
            r->fault);
        if (r->fault == LOG_READ) {
            assert_true(weir__slice_is(e.key, r->wants_key));
            assert_int_equal(e.cost, r->wants_cost);
            assert_int_equal(e.status, r->wants_status);
        }
        free(copy);
    }
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *format, *columns, *key, *time, *cost, *line, *wants;
    } ROWS[] = {
        {.format = "apache", .line = "x", .wants = "unknown format 'apache'"},
        {.line = "nothing that is known", .wants = "not known by its first lines"},
        {.format = "$a$b", .line = "x", .wants = "text must stand between $a"},
        {.format = "$", .line = "x", .wants = "a name must follow each $"},
        {.format = "log_format x 'a", .line = "x", .wants = "unknown format"},
        {.format = "log_format x '$a", .line = "x", .wants = "a quote is not closed"},
        {.line = "a,b\n", .wants = "no column is known to be the time; name it with --time (a, b)"},
        {.line = "time,b", .key = "c", .wants = "--key: no column 'c'; the columns are time, b"},
        {.line = "time,b", .key = "{b}{time}", .wants = "text must stand between two columns"},
        {.line = "time,b", .key = "{b", .wants = "a } is missing"},
        {.line = "time,b", .cost = "b+c", .wants = "--cost: no column 'c'"},
    };
    static struct log_format format;

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const struct log_sample sample = {1, {weir__slice_trim(weir__slice_of(ROWS[i].line))}};
        const struct log_names names = {ROWS[i].time, ROWS[i].key, ROWS[i].cost, NULL,
                                        LOG_TIME_AUTO};
        struct log_fields fields;
        struct sim_error error = {""};

        print_message("  %s\n", ROWS[i].wants);
        assert_false(log_format_choose(&format, ROWS[i].format, ROWS[i].columns, &sample, &error) &&
                     log_fields_choose(&fields, &format, &names, &sample, &error));
        if (!strstr(error.text, ROWS[i].wants))
            print_message("    %s\n", error.text);
        assert_non_null(strstr(error.text, ROWS[i].wants));
    }
}

/* ---- Order and counting ---------------------------------------------------------------------- */

static void lines_are_sorted_within_the_window(void **state)
{
    static struct arrivals a;
    struct arrival out;
    int64_t last_ns = 0;
    int got = 0;
    const int n = 3 * ARRIVALS_WINDOW;

    (void)state;
    memset(&a, 0, sizeof a);
    for (int i = 0; i < n; i++) { /* each pair of lines is swapped */
        const struct arrival line = {(i ^ 1) + 1, 1, (uint32_t)i};

        if (arrivals_add(&a, &line, &out)) {
            assert_int_equal(out.time_ns, last_ns + 1);
            last_ns = out.time_ns;
            got++;
        }
    }
    for (; arrivals_next(&a, &out); got++)
        assert_int_equal(out.time_ns, ++last_ns);
    assert_int_equal(got, n);
    assert_int_equal(a.swapped, n / 2);
    assert_int_equal(a.late, 0);
}

static void a_line_that_is_too_late_counts_when_the_clock_is(void **state)
{
    static struct arrivals a;
    struct arrival out;
    int got = 0;

    (void)state;
    memset(&a, 0, sizeof a);
    for (int i = 0; i < ARRIVALS_WINDOW + 10; i++)
        got += arrivals_add(&a, &(struct arrival){100 + i, 1, 0}, &out);
    assert_int_equal(out.time_ns, 109);
    assert_true(arrivals_add(&a, &(struct arrival){5, 1, 7}, &out));
    assert_int_equal(out.time_ns, 109);
    assert_int_equal(out.client, 7);
    assert_int_equal(a.late, 1);
    assert_int_equal(a.swapped, 1);
    assert_int_equal(got, 10);
}

static void equal_times_keep_their_order(void **state)
{
    static struct arrivals a;
    struct arrival out;

    (void)state;
    memset(&a, 0, sizeof a);
    for (uint32_t i = 0; i < 100; i++)
        assert_false(arrivals_add(&a, &(struct arrival){i % 2, 1, i}, &out));
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(arrivals_next(&a, &out));
        assert_int_equal(out.client, i < 50 ? 2 * i : 2 * (i - 50) + 1);
    }
}

static void a_window_knows_the_most_of_any_period(void **state)
{
    static const struct {
        int64_t at_ns, cost, most;
    } ROWS[] = {{0, 1, 1}, {9, 1, 2}, {10, 1, 2}, {18, 3, 5}, {18, 1, 6}, {30, 2, 6}, {31, 9, 11}};
    struct window w = {0};

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        assert_true(window_add(&w, ROWS[i].at_ns, ROWS[i].cost, 10) >= 0);
        assert_int_equal(w.most, ROWS[i].most);
    }
    window_free(&w);
}

static void a_timeline_loses_nothing_when_it_grows(void **state)
{
    static struct timeline t;
    int64_t asked = 0;

    (void)state;
    memset(&t, 0, sizeof t);
    for (int64_t i = 0; i < 100000; i++)
        timeline_add(&t, 7 * S + i * i * 1000, &(struct timeline_row){.asked = 1});
    for (int i = 0; i < t.n; i++)
        asked += t.row[i].asked;
    assert_int_equal(asked, 100000);
    assert_int_equal(t.row_ns, 5 * S);
    assert_int_equal(t.first * t.row_ns, 5 * S); /* rows begin at whole multiples */
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(times_are_read_exactly_or_refused),
    cmocka_unit_test(lines_become_events),
    cmocka_unit_test(mistakes_are_named),
    cmocka_unit_test(lines_are_sorted_within_the_window),
    cmocka_unit_test(a_line_that_is_too_late_counts_when_the_clock_is),
    cmocka_unit_test(equal_times_keep_their_order),
    cmocka_unit_test(a_window_knows_the_most_of_any_period),
    cmocka_unit_test(a_timeline_loses_nothing_when_it_grows),
};

RUN("log", TESTS)
