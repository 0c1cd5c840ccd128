/* The address of a Redis: what a store's URL says.
 *
 *     redis://[[user]:password@]host[:port][/db][?option&...]
 *     redis+unix:/path/of/socket[?option&...]
 *
 * Options: timeout=50ms (1ms..60s); connections=1 (1..16); nodes=N (1..65536; without it heartbeats
 * count the nodes); prefix=weir (what all keys begin with: 1 to 32 letters, digits, '-', '_', '.');
 * password-file=/path or password-env=NAME (where the password is, instead of in the URL; a user is
 * then written user@host); for redis+unix also db=N, user=U, password=P. User, password and paths
 * may contain %XX. An IPv6 host is written in brackets: [::1].
 */
#ifndef WEIR_REDIS_CLIENT_ADDRESS_H
#define WEIR_REDIS_CLIENT_ADDRESS_H

#include <weir.h>

#define WEIR__REDIS_TIMEOUT_NS INT64_C(50000000)
#define WEIR__PASSWORD_SIZE    512 /* of a password with its NUL */

/* Where the password is. */
enum weir__password_from { WEIR__PASSWORD_URL, WEIR__PASSWORD_FILE, WEIR__PASSWORD_ENV };

struct weir__address {
    bool local;         /* a Unix socket: host is its path */
    bool tls;           /* rediss:// */
    char host[256];     /* a name, a numeric address (without brackets), or a path */
    char name[256];     /* the host as the URL has it, before it is resolved */
    int port, db;       /* 6379, 0 */
    int64_t timeout_ns; /* for one decision, including the connect and the handshake */
    int connections;    /* default: 1 */
    int64_t nodes;      /* 0: heartbeats count them */
    char prefix[33];
    char user[128], password[WEIR__PASSWORD_SIZE]; /* "": none, or not read yet */
    enum weir__password_from password_from;
    char password_at[512]; /* the path of the file, or the name of the variable */
    char shown[300];       /* the URL without its secrets, for messages and logs */
};

/* Returns 0; or WEIR_ESTORE, and *why names the offending word, what was expected, and the
 * column. If hiredis has no TLS, rediss:// is an error that says so. No message contains the
 * password. A password in a file or a variable is not read here. */
int weir__address_parse(struct weir__address *a, const char *url, struct weir_diag *why);

/* Reads the password from where a->password_from says; one in the URL is in *a already. Returns 0;
 * or WEIR_EIO (the file cannot be read) or WEIR_EINVAL (no variable, or what is there is no
 * password): then *why names the file or the variable, never what it contains, and *password is
 * untouched (password.c). */
int weir__password_read(const struct weir__address *a, char password[WEIR__PASSWORD_SIZE],
                        struct weir_diag *why);

#endif
