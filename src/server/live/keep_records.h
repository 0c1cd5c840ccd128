/* The lines of the journal of live changes, and the records that they leave (keep.h). */
#ifndef WEIR_SERVER_LIVE_KEEP_RECORDS_H
#define WEIR_SERVER_LIVE_KEEP_RECORDS_H

#include "server/live/keep.h"

/* A line's fields. The value of what was deleted has no text. */
struct change_line {
    enum keep_kind kind;
    struct weir__slice name, key, value;
    uint64_t base; /* what the configuration said; 0: nothing */
};

/* Reads a line without its end. `text` has room for it, and holds what is decoded. */
bool keep_line_read(struct weir__slice line, char *text, struct change_line *l);
/* The line, with its end; NULL: out of memory. */
char *keep_line_make(const struct change_line *l);
/* A number for a text, the same in every run. */
uint64_t keep_hash(const void *bytes, size_t len);

struct record {
    uint64_t id;   /* a hash of the kind, name and key */
    uint64_t name; /* the same of the name */
    uint64_t base;
    size_t len;   /* of the line */
    bool of_key;  /* not of the limit itself */
    bool deletes; /* it deletes the limit */
    bool idle;    /* it says what the configuration says: it only replaces others */
    char *line;   /* with its end */
};

struct records {
    struct record *at;
    size_t n, cap;
};

/* `line` is taken over. Whether the record is idle is the caller's to say. */
struct record keep_record_of(const struct change_line *l, char *line);
void records_clear(struct records *r);
/* The bytes of all lines. */
size_t records_bytes(const struct records *r);
/* False: out of memory. */
bool records_make_room(struct records *r, size_t more);
/* Adds one in place of those that it replaces. There is room. */
void records_add(struct records *r, struct record one);
/* The same for all that were appended, in the order of their changes. False: out of memory. */
bool records_settle(struct records *r);

#endif
