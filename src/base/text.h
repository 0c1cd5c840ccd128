/* Text: slices that borrow, a bounded writer, and numbers and durations both ways.
 *
 * Parsers keep no state and stop at the given end; a writer never writes past its buffer and knows
 * how long the whole text would have been.
 */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__slice {
    const char *at;
    size_t len;
};

struct weir__slice weir__slice_of(const char *text);
bool weir__slice_is(struct weir__slice s, const char *text);
bool weir__slice_equal(struct weir__slice a, struct weir__slice b);

/* Returns the part up to the first `stop` (or the end); *s keeps the rest, from that byte on. */
struct weir__slice weir__slice_cut(struct weir__slice *s, char stop);

/* The slice without the blanks and line ends around it. */
struct weir__slice weir__slice_trim(struct weir__slice s);

/* Takes the next word off *s. Skips blanks (space, tab, CR) before it, not after. */
struct weir__slice weir__slice_word(struct weir__slice *s);

/* How many edits turn a into b, for "did you mean". Words over 32 bytes are never close. */
int weir__slice_distance(struct weir__slice a, struct weir__slice b);

struct weir__out {
    char *at;
    size_t cap, len; /* len may pass cap: the length of the whole text */
};

void weir__out_bytes(struct weir__out *o, const char *at, size_t len);
void weir__out_text(struct weir__out *o, const char *text);
void weir__out_int(struct weir__out *o, int64_t value);
/* For people: 1,234,567. */
void weir__out_grouped(struct weir__out *o, uint64_t value);
/* Up to 40 bytes of a user's word, quoted; unprintable bytes become '?'. A URL is not shown. */
void weir__out_quoted(struct weir__out *o, struct weir__slice word);
/* A store's URL without its secrets, because messages end up in logs. A file's path is shown whole;
 * in any other URL, *** replaces everything before an '@', a port or database that is not a number,
 * and everything after the first option that is not known to be harmless. Unprintable bytes become
 * '?'. */
void weir__out_url(struct weir__out *o, const char *url);
/* A limit's text, or any other argument, without its secrets: up to the first part that may be a
 * URL, or store=. */
void weir__out_limit(struct weir__out *o, const char *text);
/* NUL-terminates within cap; returns the whole length. */
size_t weir__out_end(struct weir__out *o);

enum weir__number {
    WEIR__NUMBER_OK,
    WEIR__NUMBER_BAD,      /* not a number of this kind at all     */
    WEIR__NUMBER_NEGATIVE, /* a number, with a minus before it     */
    WEIR__NUMBER_BIG,      /* does not fit, or passes what follows */
    WEIR__NUMBER_FINE,     /* finer than one unit can hold         */
};

/* Digits only: 0..INT64_MAX. */
enum weir__number weir__parse_int(struct weir__slice s, int64_t *value);

/* Digits, an optional decimal part, times `unit` exactly: "1.5" with unit 1000 is 1500. */
enum weir__number weir__parse_decimal(struct weir__slice s, int64_t unit, int64_t *value);

/* A count with an optional k or M. */
enum weir__number weir__parse_count(struct weir__slice s, int64_t *value);

/* 500ms, 1m30s, 1.5s, 24h; "0" alone is a duration too. */
enum weir__number weir__parse_duration(struct weir__slice s, int64_t *ns);

/* A bare unit: s, m, min, h, d, ms, us, ns. */
bool weir__parse_unit(struct weir__slice s, int64_t *ns);

/* Whole units from the largest down, so that it parses back: 1m30s, 1s500ms, 0s. */
void weir__out_duration(struct weir__out *o, int64_t ns);

/* The same in the caller's text, NUL-terminated, for printf. */
#define WEIR__DURATION_MAX 48
const char *weir__duration_text(int64_t ns, char text[WEIR__DURATION_MAX]);

/* A period behind a slash: a bare unit where one is enough (10/s, 10/m), else a duration
 * (10/500ms).
 */
void weir__out_period(struct weir__out *o, int64_t ns);

#endif
