/* The open tickets of a worker: what the files of this folder share. */
#ifndef WEIR_SERVER_TICKETS_TICKET_TABLE_H
#define WEIR_SERVER_TICKETS_TICKET_TABLE_H

#include "server/internal.h"
#include "server/tickets/tickets.h"

struct ticket {
    struct due_item due;           /* first: in the heap, by the end of its lease */
    struct ticket *next;           /* with the same hash */
    struct ticket *later, *sooner; /* of the same connection */
    struct conn *conn;             /* NULL: it has closed */
    const struct limit *limit;     /* retained */
    struct ticket_holders holders;
    uint64_t id[2];
    int owner;        /* the worker whose table has it */
    bool tied;        /* it ends with its connection ... */
    bool left;        /* ... which has closed */
    bool ending;      /* a thread is exiting it, ... */
    bool by_client;   /* ... because its client said so */
    int64_t ttl_ns;   /* until it lapses */
    int64_t store_ns; /* by the daemon's clock: until when a remote store keeps it by itself */
    char name[TICKET_NAME]; /* in a remote store; or "" */
    int room;               /* terms */
    char entered[];         /* a struct weir_ticket, as far as its terms go */
};

/* What an id of a limit in a Redis carries, for daemons that did not issue it. */
struct ticket_parts {
    int64_t cost;
    struct weir__slice name, limit, key; /* in `bytes` */
    char bytes[TICKET_TEXT / 2];
};

/* False: the id carries nothing. The name is not checked: only the Redis knows it. */
bool ticket_read_parts(struct weir__slice id, struct ticket_parts *p);

/* Makes a ticket that is in no table, with room admitted; NULL: no room, or no memory. */
struct ticket *ticket_make(struct conn *c, const struct limit *l, int64_t ttl_ns, bool tied);
/* Releases it. It is in no table. */
void ticket_free(struct server *s, struct ticket *t);

void ticket_load(const struct ticket *t, struct weir_ticket *entered);
void ticket_save(struct ticket *t, const struct weir_ticket *entered);

/* Puts it into the table of the worker, under a new id. False: no memory. */
bool ticket_add(struct worker *w, struct ticket *t);
/* Finds it and marks it as ending; NULL: there is none, or it is ending. */
struct ticket *ticket_claim(struct server *s, struct weir__slice id);
/* The same for the first whose lease is over at now; NULL: there is none. */
struct ticket *ticket_claim_due(struct worker *w, int64_t now_ns);
/* It stays open, to be looked at again at due_ns; 0: as before. */
void ticket_unclaim(struct server *s, struct ticket *t, int64_t due_ns);
/* Takes a ticket that is marked out of its table. */
void ticket_remove(struct server *s, struct ticket *t);
/* When the next lease ends; INT64_MAX: there is none. */
int64_t tickets_next_ns(struct worker *w);
/* Takes any ticket out of the worker's table; NULL: it is empty. */
struct ticket *tickets_pop(struct worker *w);
/* The tickets of the connection are without one; those that are tied to it are due. True if there
 * are such. */
bool tickets_detach(struct conn *c);
void tickets_free(struct worker *w);

#endif
