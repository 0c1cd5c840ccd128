/* Unit tests of the HTTP reader. */
#include "check.h"

#include "../fuzz/http_talk.h"

#define MOST (1 << 20)

/* ---- Requests -------------------------------------------------------------------------------- */

/* In one piece, cut in two at every place, and byte by byte: the same is told. */
static void assert_told(const char *bytes, size_t len, size_t most, const char *expected)
{
    static const unsigned char SINGLE[] = {0};
    char *told = talk(bytes, len, most, NULL, 0, NULL);

    assert_string_equal(told, expected);
    free(told);
    told = talk(bytes, len, most, SINGLE, 1, NULL);
    assert_string_equal(told, expected);
    free(told);
    for (size_t at = 1; at < len && at <= 256; at++) {
        const unsigned char cut[] = {(unsigned char)(at - 1), 255, 255, 255, 255};

        told = talk(bytes, len, most, cut, sizeof cut, NULL);
        assert_string_equal(told, expected);
        free(told);
    }
}

static void assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0)
        fail_msg("'%s' does not begin with '%s'", text, with);
}

struct row {
    const char *what, *bytes, *told;
};

static void assert_rows(const struct row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        print_message("  %s\n", row[i].what);
        assert_told(row[i].bytes, strlen(row[i].bytes), MOST, row[i].told);
    }
}

#define H        "Host: w\r\n"
#define HOST     " name=4:Host value=1:w"
#define ROWS(of) (of), sizeof(of) / sizeof((of)[0])

static void requests_are_read_however_they_are_cut(void **state)
{
    static const struct row REQUESTS[] = {
        {"a request without a body", "GET / HTTP/1.1\r\n" H "\r\n",
         "GET used=27 method=3:GET path=1:/ query=0:" HOST " body=0:\n"},
        {"empty lines before it", "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n",
         "GET used=31 method=3:GET path=1:/ query=0:" HOST " body=0:\n"},
        {"a query", "HEAD /a?k=%41+b&&c HTTP/1.1\r\n" H "\r\n",
         "HEAD used=40 method=4:HEAD path=2:/a query=10:k=%41+b&&c" HOST
         " body=0: param=1:k is=3:A b param=1:c is=0:\n"},
        {"a query of UTF-8", "GET /a?k=\xe7\x94\xa8\xff&?\x80 HTTP/1.1\r\n" H "\r\n",
         "GET used=38 method=3:GET path=2:/a query=9:k=\xe7\x94\xa8\xff&?\x80" HOST
         " body=0: param=1:k is=4:\xe7\x94\xa8\xff param=2:?\x80 is=0:\n"},
        {"in the absolute form, behind empty lines",
         "\r\nGET http://w?\xc3\xbc HTTP/1.1\r\n" H "\r\n",
         "GET used=39 method=3:GET path=1:/ query=2:\xc3\xbc" HOST
         " body=0: param=2:\xc3\xbc is=0:\n"},
        {"a body of known length", "POST /p HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc",
         "POST used=51 method=4:POST path=2:/p query=0:" HOST
         " name=14:Content-Length value=1:3 body=3:abc\n"},
        {"a body of length 0", "PUT /p HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
         "PUT used=47 method=3:PUT path=2:/p query=0:" HOST
         " name=14:Content-Length value=1:0 body=0:\n"},
        {"chunks are put together, trailers and extensions left out",
         "POST /p HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n"
         "3;x=y\r\nabc\r\n00a\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
         "POST used=103 method=4:POST path=2:/p query=0:" HOST
         " name=17:Transfer-Encoding value=7:Chunked body=13:abc0123456789\n"},
        {"two, one behind the other",
         "POST /1 HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nxDELETE /2 HTTP/1.1\r\n" H "\r\n",
         "POST used=49 method=4:POST path=2:/1 query=0:" HOST
         " name=14:Content-Length value=1:1 body=1:x\n"
         "DELETE used=31 method=6:DELETE path=2:/2 query=0:" HOST " body=0:\n"},
        {"chunks, and a request behind them",
         "POST /1 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
         "GET /2 HTTP/1.1\r\n" H "\r\n",
         "POST used=68 method=4:POST path=2:/1 query=0:" HOST
         " name=17:Transfer-Encoding value=7:chunked body=1:x\n"
         "GET used=28 method=3:GET path=2:/2 query=0:" HOST " body=0:\n"},
        {"a method of others", "PATCH / HTTP/1.1\r\n" H "\r\n",
         "OTHER used=29 method=5:PATCH path=1:/ query=0:" HOST " body=0:\n"},
        {"the absolute form", "GET http://w:1/a?b=c HTTP/1.1\r\n" H "\r\n",
         "GET used=42 method=3:GET path=2:/a query=3:b=c" HOST " body=0: param=1:b is=1:c\n"},
        {"the absolute form without a path", "GET http://w HTTP/1.1\r\n" H "\r\n",
         "GET used=34 method=3:GET path=1:/ query=0:" HOST " body=0:\n"},
        {"the asterisk form", "OPTIONS * HTTP/1.1\r\n" H "\r\n",
         "OTHER used=31 method=7:OPTIONS path=1:* query=0:" HOST " body=0:\n"},
        {"values lose the blanks around them", "GET / HTTP/1.1\r\n" H "A: \t b c \t\r\nB:\r\n\r\n",
         "GET used=43 method=3:GET path=1:/ query=0:" HOST
         " name=1:A value=3:b c name=1:B value=0: body=0:\n"},
        {"an upgrade we do not know is not one",
         "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
         "GET used=62 method=3:GET path=1:/ query=0:" HOST
         " name=10:Connection value=7:Upgrade name=7:Upgrade value=3:h2c body=0:\n"},
        {"an upgrade of a request in chunks",
         "POST / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n"
         "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n",
         "POST used=102 method=4:POST path=1:/ query=0:" HOST
         " name=10:Connection value=7:Upgrade name=7:Upgrade value=3:h2c"
         " name=17:Transfer-Encoding value=7:chunked body=1:x\n"
         "GET used=27 method=3:GET path=1:/ query=0:" HOST " body=0:\n"},
        {"half a request", "GET / HTTP/1.1\r\nHo", "more\n"},
        {"half a body", "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nab", "more\n"},
    };

    (void)state;
    assert_rows(ROWS(REQUESTS));
}

static void connections_stay_or_close_as_the_client_says(void **state)
{
#define GET11 "GET / HTTP/1.1\r\n" H
#define GET10 "GET / HTTP/1.0\r\n"
    static const struct {
        const char *bytes;
        bool keep_alive;
    } SAID[] = {
        {GET11 "\r\n", true},
        {GET11 "Connection: keep-alive\r\n\r\n", true},
        {GET11 "Connection: Close\r\n\r\n", false},
        {GET11 "Connection: x, close\r\n\r\n", false},
        {GET11 "Connection: keep-alive, close\r\n\r\n", false},
        {GET10 "\r\n", false},
        {GET10 "Connection: keep-alive\r\n\r\n", true},
        {GET10 "Connection: close\r\n\r\n", false},
        {GET10 "Connection: keep-alive\r\nConnection: close\r\n\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof SAID / sizeof SAID[0]; i++) {
        char *told = talk(SAID[i].bytes, strlen(SAID[i].bytes), MOST, NULL, 0, NULL);

        print_message("  %s", SAID[i].bytes);
        assert_null(strstr(told, "bad"));
        assert_int_equal(strstr(told, "closes") == NULL, SAID[i].keep_alive);
        free(told);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

#define POST "POST / HTTP/1.1\r\n" H
#define TE   POST "Transfer-Encoding: chunked\r\n\r\n"

/* The status counts; the words depend on which of the two readers met the fault first. */
static void assert_refused(const struct row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *told = talk(row[i].bytes, strlen(row[i].bytes), MOST, NULL, 0, NULL);

        print_message("  %s\n", row[i].what);
        assert_begins(told, row[i].told);
        assert_told(row[i].bytes, strlen(row[i].bytes), MOST, told);
        free(told);
    }
}

static void what_could_be_read_in_two_ways_is_refused(void **state)
{
    static const struct row SMUGGLED[] = {
        {"a length beside chunks",
         POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad 400"},
        {"chunks beside a length",
         POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "bad 400"},
        {"two lengths", POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "bad 400"},
        {"two lengths in one", POST "Content-Length: 3, 3\r\n\r\nabc", "bad 400"},
        {"a length with a sign", POST "Content-Length: +3\r\n\r\nabc", "bad 400"},
        {"a negative length", POST "Content-Length: -3\r\n\r\nabc", "bad 400"},
        {"a length in hexadecimal", POST "Content-Length: 0x3\r\n\r\nabc", "bad 400"},
        {"no length at all", POST "Content-Length: \r\n\r\nabc", "bad 400"},
        {"a length past 64 bits", POST "Content-Length: 18446744073709551619\r\n\r\nabc",
         "bad 400"},
        {"a blank before the colon", POST "Content-Length : 3\r\n\r\nabc", "bad 400"},
        {"a field behind a blank", "POST / HTTP/1.1\r\n Content-Length: 3\r\n" H "\r\nabc",
         "bad 400"},
        {"a folded field", POST "A: b\r\n Content-Length: 3\r\n\r\nabc", "bad 400"},
        {"a folded coding", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "bad 400"},
        {"a field behind a lone CR", POST "A: b\rContent-Length: 3\r\n\r\nabc", "bad 400"},
        {"a field behind a lone LF", POST "A: b\nContent-Length: 3\r\n\r\nabc", "bad 400"},
        {"a request line that ends with LF", "GET / HTTP/1.1\n" H "\r\n", "bad 400"},
        {"a field without a name", POST ": b\r\n\r\n", "bad 400"},
        {"a field without a colon", POST "Bee\r\n\r\n", "bad 400"},
        {"a coding behind chunked", POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
         "bad 400"},
        {"an unknown coding", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "bad 400"},
        {"chunked twice",
         POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "bad 400"},
        {"a coding that we cannot undo", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
         "bad 501"},
        {"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "bad 400"},
        {"a chunk's size with a blank", TE " 3\r\nabc\r\n0\r\n\r\n", "bad 400"},
        {"a chunk's size with 0x", TE "0x3\r\nabc\r\n0\r\n\r\n", "bad 400"},
        {"a chunk's negative size", TE "-3\r\nabc\r\n0\r\n\r\n", "bad 400"},
        {"a chunk's size past 64 bits", TE "fffffffffffffffff\r\nabc", "bad 400"},
        {"a chunk's size that ends with LF", TE "3\nabc\r\n0\r\n\r\n", "bad 400"},
        {"a chunk that is longer than it says", TE "3\r\nabcd\r\n0\r\n\r\n", "bad 400"},
        {"a lone LF in an extension", TE "3;x\ny\r\nabc\r\n0\r\n\r\n", "bad 400"},
        {"a lone LF in a trailer", TE "0\r\nA: b\nC: d\r\n\r\n", "bad 400"},
        {"no Host", "GET / HTTP/1.1\r\n\r\n", "bad 400"},
        {"two Hosts", "GET / HTTP/1.1\r\n" H H "\r\n", "bad 400"},
    };

    (void)state;
    assert_refused(ROWS(SMUGGLED));
}

static void what_is_no_request_is_refused_with_its_status(void **state)
{
    static const struct row REFUSED[] = {
        {"no method", "\x01\x02 / HTTP/1.1\r\n\r\n", "bad 400"},
        {"an unknown method", "FROB / HTTP/1.1\r\n" H "\r\n", "bad 501"},
        {"a method in lower case", "get / HTTP/1.1\r\n" H "\r\n", "bad 501"},
        {"CONNECT", "CONNECT w:1 HTTP/1.1\r\n" H "\r\n", "bad 501"},
        {"a version to come", "GET / HTTP/1.2\r\n" H "\r\n", "bad 505"},
        {"HTTP/2 without its preface", "GET / HTTP/2.0\r\n" H "\r\n", "bad 505"},
        {"HTTP/2 with its preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "bad 505"},
        {"HTTP/0.9", "GET /\r\n\r\n", "bad 400"},
        {"another protocol", "GET / RTSP/1.0\r\n" H "\r\n", "bad 400"},
        {"two blanks", "GET  / HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"a byte that no target has", "GET /\x7f HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"UTF-8 in a path", "GET /\xc3\xbc?k HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"UTF-8 in a method", "\xc3\xbc /?k HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"UTF-8 in a host", "GET http://\xc3\xbc/?k HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"UTF-8 behind the target", "GET /?k \xc3\xbc HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"UTF-8 in a name", "GET /?k HTTP/1.1\r\n" H "\xc3\xbc: ?\r\n\r\n", "bad 400"},
        {"a control byte in a query", "GET /?k=\x01 HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"DEL behind UTF-8 in a query", "GET /?\xc3\xbc\x7f HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"a NUL's neighbour in a query", "GET /?\xc3\xbc\r HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"a fragment of UTF-8", "GET /?a#\xc3\xbc HTTP/1.1\r\n" H "\r\n", "bad 400"},
        {"a fragment", "GET /a#b HTTP/1.1\r\n" H "\r\n", "bad 400"},
    };

    (void)state;
    assert_refused(ROWS(REFUSED));
}

static char *head_of(size_t len, const char *first, size_t *size)
{
    static const char END[] = "\r\nHost: w\r\n\r\n";
    char *bytes = malloc(len + sizeof END);

    assert_non_null(bytes);
    memset(bytes, 'a', len);
    memcpy(bytes, first, strlen(first));
    memcpy(bytes + len - sizeof END + 1, END, sizeof END);
    *size = len;
    return bytes;
}

static void heads_have_a_size_up_to_which_they_are_read(void **state)
{
    static const struct {
        const char *what, *first;
        size_t len;
        const char *told; /* how it begins */
    } HEADS[] = {
        {"a head of the size", "GET / HTTP/1.1\r\nA: ", HTTP_HEAD_MAX, "GET "},
        {"a head of one more", "GET / HTTP/1.1\r\nA: ", HTTP_HEAD_MAX + 1,
         "bad 431 the head of the request is too large\n"},
        {"a line that does not end", "GET /", HTTP_HEAD_MAX * 2,
         "bad 414 the request line is too long\n"},
    };
    static const unsigned char CUT[] = {255, 16, 3};

    (void)state;
    for (size_t i = 0; i < sizeof HEADS / sizeof HEADS[0]; i++) {
        size_t len;
        char *bytes = head_of(HEADS[i].len, HEADS[i].first, &len);
        char *whole = talk(bytes, len, MOST, NULL, 0, NULL);
        char *cut = talk(bytes, len, MOST, CUT, sizeof CUT, NULL);

        print_message("  %s\n", HEADS[i].what);
        assert_begins(whole, HEADS[i].told);
        assert_string_equal(whole, cut);
        free(bytes);
        free(whole);
        free(cut);
    }
}

static void more_than_64_fields_are_too_many(void **state)
{
    char bytes[1024] = "GET / HTTP/1.1\r\nHost: w\r\n";
    char *told;

    (void)state;
    for (int i = 1; i < HTTP_HEADERS_MAX; i++)
        strcat(bytes, "a: b\r\n");
    strcat(bytes, "\r\n");
    told = talk(bytes, strlen(bytes), MOST, NULL, 0, NULL);
    assert_begins(told, "GET ");
    free(told);
    strcpy(bytes + strlen(bytes) - 2, "a: b\r\n\r\n");
    assert_told(bytes, strlen(bytes), MOST, "bad 431 the request has more than 64 header fields\n");
}

static void a_request_larger_than_allowed_is_refused_when_that_is_known(void **state)
{
    static const char LENGTH[] = POST "Content-Length: 100\r\n\r\n";
    static const char CHUNK[] = TE "65\r\n";
    static const char LARGE[] = "bad 413 the request is too large\n";
    char bytes[256], fits[32];

    (void)state;
    /* The head alone tells: no byte of the body has come. */
    assert_told(LENGTH, sizeof LENGTH - 1, sizeof LENGTH - 1 + 99, LARGE);
    assert_told(LENGTH, sizeof LENGTH - 1, sizeof LENGTH - 1 + 100, "more\n");
    assert_told(CHUNK, sizeof CHUNK - 1, 100, LARGE);
    /* Chunks of small sizes, or an extension that goes on and on. */
    (void)snprintf(bytes, sizeof bytes, TE "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    (void)snprintf(fits, sizeof fits, "POST used=%zu ", strlen(bytes));
    assert_told(bytes, strlen(bytes), strlen(bytes) - 1, LARGE);
    {
        char *told = talk(bytes, strlen(bytes), strlen(bytes), NULL, 0, NULL);

        assert_begins(told, fits);
        free(told);
    }
    (void)snprintf(bytes, sizeof bytes,
                   TE "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert_told(bytes, strlen(bytes), 80, LARGE);
}

/* ---- Continue -------------------------------------------------------------------------------- */

static void a_client_that_waits_is_told_to_go_on_once(void **state)
{
    static const struct {
        const char *what, *head, *body;
        unsigned continues;
    } WAITING[] = {
        {"a body of known length", POST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", "abc",
         1},
        {"a body in chunks", POST "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n",
         "0\r\n\r\n", 1},
        {"no body", POST "Expect: 100-continue\r\n\r\n", "", 0},
        {"HTTP/1.0, which knows nothing of it",
         "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "abc", 0},
        {"another expectation", POST "Expect: miracles\r\nContent-Length: 3\r\n\r\n", "abc", 0},
    };
    static const unsigned char SINGLE[] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof WAITING / sizeof WAITING[0]; i++) {
        char bytes[256], *told;
        unsigned continues;

        print_message("  %s\n", WAITING[i].what);
        (void)snprintf(bytes, sizeof bytes, "%s%s", WAITING[i].head, WAITING[i].body);
        told = talk(bytes, strlen(bytes), MOST, NULL, 0, &continues);
        assert_int_equal(continues, 0); /* the body was there: there is nothing to wait for */
        free(told);
        told = talk(bytes, strlen(bytes), MOST, SINGLE, 1, &continues);
        assert_begins(told, "POST ");
        assert_int_equal(continues, WAITING[i].continues);
        free(told);
    }
}

/* ---- Queries --------------------------------------------------------------------------------- */

static void queries_are_decoded_in_place(void **state)
{
    static const struct {
        const char *query;
        struct {
            const char *name, *value;
            size_t len;
        } param[3];
        int end;
    } QUERIES[] = {
        {"", {{0}}, 0},
        {"&&", {{0}}, 0},
        {"a=b", {{"a", "b", 1}}, 0},
        {"a=b&c=d", {{"a", "b", 1}, {"c", "d", 1}}, 0},
        {"&a=b&", {{"a", "b", 1}}, 0},
        {"a", {{"a", "", 0}}, 0},
        {"a=", {{"a", "", 0}}, 0},
        {"=b", {{"", "b", 1}}, 0},
        {"a=b=c", {{"a", "b=c", 3}}, 0},
        {"%61=%62", {{"a", "b", 1}}, 0},
        {"a=1+2%2B3", {{"a", "1 2+3", 5}}, 0},
        {"a=%00%ff%FF", {{"a", "\0\xff\xff", 3}}, 0},
        {"a=%26%3d&b=1", {{"a", "&=", 2}, {"b", "1", 1}}, 0},
        {"a=%", {{0}}, -1},
        {"a=%4", {{0}}, -1},
        {"a=%4&b=1", {{0}}, -1},
        {"a=%zz", {{0}}, -1},
        {"a=%+1", {{0}}, -1},
        {"x=1&%=2", {{"x", "1", 1}}, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof QUERIES / sizeof QUERIES[0]; i++) {
        char *bytes = strdup(QUERIES[i].query);
        struct weir__slice rest = weir__slice_of(bytes);
        struct http_param p;

        print_message("  %s\n", QUERIES[i].query);
        for (size_t j = 0; j < 3 && QUERIES[i].param[j].name; j++) {
            assert_int_equal(http_param_next(&rest, &p), 1);
            assert_true(weir__slice_is(p.name, QUERIES[i].param[j].name));
            assert_int_equal(p.value.len, QUERIES[i].param[j].len);
            assert_memory_equal(p.value.at, QUERIES[i].param[j].value, p.value.len);
        }
        assert_int_equal(http_param_next(&rest, &p), QUERIES[i].end);
        free(bytes);
    }
}

static void paths_keep_their_plus_signs(void **state)
{
    char text[] = "a+b%2Fc+d", bad[] = "a%2";
    struct weir__slice s = weir__slice_of(text), t = weir__slice_of(bad);

    (void)state;
    assert_true(http_decode(&s, false));
    assert_true(weir__slice_is(s, "a+b/c+d"));
    assert_false(http_decode(&t, false));
}

static void fields_are_found_whatever_their_case(void **state)
{
    char bytes[] = "GET / HTTP/1.1\r\nHOST: w\r\nx-a: 1\r\nX-B: 2\r\nX-A: 3\r\n\r\n";
    struct http_reader *kept = NULL;
    struct http_request rq;
    const char *why;
    size_t used;
    int status;

    (void)state;
    assert_int_equal(http_read(&kept, bytes, sizeof bytes - 1, MOST, &rq, &used, &status, &why),
                     HTTP_COMPLETE);
    assert_true(weir__slice_is(http_field_of(&rq, "x-a"), "1"));
    assert_true(weir__slice_is(http_last_field_of(&rq, "x-a"), "3"));
    assert_null(http_field_of(&rq, "x-").at);
    assert_null(http_last_field_of(&rq, "x-aa").at);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(requests_are_read_however_they_are_cut),
    cmocka_unit_test(connections_stay_or_close_as_the_client_says),
    cmocka_unit_test(what_could_be_read_in_two_ways_is_refused),
    cmocka_unit_test(what_is_no_request_is_refused_with_its_status),
    cmocka_unit_test(heads_have_a_size_up_to_which_they_are_read),
    cmocka_unit_test(more_than_64_fields_are_too_many),
    cmocka_unit_test(a_request_larger_than_allowed_is_refused_when_that_is_known),
    cmocka_unit_test(a_client_that_waits_is_told_to_go_on_once),
    cmocka_unit_test(queries_are_decoded_in_place),
    cmocka_unit_test(paths_keep_their_plus_signs),
    cmocka_unit_test(fields_are_found_whatever_their_case),
};

RUN("http", TESTS)
