/* Lines of logs: what a format is, and the parsers that take a line apart.
 *
 * A parser is a function over bytes that keeps nothing: it is given a format that was made ready
 * (log_format.h) and a line without its end, and finds the columns that are wanted. Values borrow
 * from the line, or, where an escape had to be undone, from the caller's scratch.
 */
#ifndef WEIR_SIM_LOG_LOG_H
#define WEIR_SIM_LOG_LOG_H

#include "base/text.h"

#define LOG_LINE_MAX    65536 /* a longer line is counted, and not read */
#define LOG_COLUMNS_MAX 256
#define LOG_WANTED_MAX  16
#define LOG_PATTERN_MAX 4096
#define LOG_DEPTH_MAX   16 /* of nested JSON objects */

enum log_kind { LOG_PATTERN, LOG_JSON, LOG_LOGFMT, LOG_CSV };

/* One column of a pattern or of a table. */
struct log_column {
    struct weir__slice name;
    struct weir__slice after; /* patterns: the text that ends the value; empty: the line's end */
    bool quoted;              /* patterns: a quote stands before it, so backslashes escape */
};

/* The part of a column that is wanted. */
enum log_part {
    LOG_WHOLE,
    LOG_METHOD, /* of a request line: GET */
    LOG_URI,    /* /find?q=1 */
    LOG_PATH    /* /find */
};

struct log_want {
    struct weir__slice name;
    int column; /* patterns and tables: its index */
    enum log_part part;
};

struct log_format {
    enum log_kind kind;
    const char *name;  /* for people: "combined" */
    char delimiter;    /* LOG_CSV */
    bool header;       /* LOG_CSV: the first line names the columns */
    bool quotes;       /* LOG_CSV: quotes may stand around a value */
    bool rest_matters; /* LOG_PATTERN: text after the pattern is an error */
    struct weir__slice before;
    int columns;
    struct log_column column[LOG_COLUMNS_MAX];
    int wants;
    int last; /* the last column that is wanted: no need to look further */
    struct log_want want[LOG_WANTED_MAX];
    char text[LOG_PATTERN_MAX + 1]; /* what the columns' names borrow from */
};

/* The values of one line, by the index of the want; at is NULL if the line has none. */
struct log_values {
    struct weir__slice value[LOG_WANTED_MAX];
    size_t used; /* of scratch */
    char scratch[LOG_LINE_MAX];
};

/* Finds the wanted values. False: the line is not of this format. */
bool log_parse(const struct log_format *f, struct weir__slice line, struct log_values *v);

bool log_parse_pattern(const struct log_format *f, struct weir__slice line, struct log_values *v);
bool log_parse_json(const struct log_format *f, struct weir__slice line, struct log_values *v);
bool log_parse_logfmt(const struct log_format *f, struct weir__slice line, struct log_values *v);
bool log_parse_csv(const struct log_format *f, struct weir__slice line, struct log_values *v);

/* Calls `found` for the name of each column of a line of JSON or logfmt. False: not of the kind. */
typedef void log_found_fn(void *to, struct weir__slice name, struct weir__slice value);
bool log_walk_json(struct weir__slice line, log_found_fn *found, void *to);
bool log_walk_logfmt(struct weir__slice line, log_found_fn *found, void *to);

/* Names are the same if their letters are, in either case. */
bool log_name_is(struct weir__slice a, struct weir__slice b);

#endif
