/* CLUSTER: one node that has all slots.
 *
 * Clients for a cluster ask which node has which slot, and connect there. The answer is this
 * daemon, by the address that the client has reached it by: the local end of its connection. On a
 * Unix socket there is none; an empty address means, in Redis too, the one that was asked.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/embed.h"
#include "server/resp/resp_front.h"
#include "server/stores.h"

#define SLOTS 16384

void resp_node_id(struct conn *c, char id[RESP_NODE_ID])
{
    const struct server *s = conn_server(c);
    const uint64_t *secret = weir__engine_secret(server_stores(conn_server(c))->store[0].engine);
    struct {
        char what[8];
        int64_t turn, process, port;
    } of = {.what = "node id", .process = getpid(), .port = server_port(s)};
    char digits[3 * 16 + 1];

    for (of.turn = 0; of.turn < 3; of.turn++)
        (void)snprintf(digits + 16 * of.turn, 17, "%016llx",
                       (unsigned long long)weir__hash(&of, sizeof of, secret));
    memcpy(id, digits, RESP_NODE_ID - 1);
    id[RESP_NODE_ID - 1] = '\0';
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* CRC-16/XMODEM, which Redis divides keys into slots by. */
static unsigned crc16(struct weir__slice s)
{
    unsigned crc = 0;

    for (size_t i = 0; i < s.len; i++) {
        crc ^= (unsigned)(unsigned char)s.at[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
    }
    return crc;
}

/* What is between the first { and the next }, if it is not empty; otherwise the key. */
static struct weir__slice hash_tag_of(struct weir__slice key)
{
    const char *open = memchr(key.at, '{', key.len), *close;

    if (!open)
        return key;
    open++;
    close = memchr(open, '}', (size_t)(key.at + key.len - open));
    return close && close > open ? (struct weir__slice){open, (size_t)(close - open)} : key;
}

/* ---- The node -------------------------------------------------------------------------------- */

struct node {
    char id[RESP_NODE_ID], host[CLIENT_HOST];
    int port;
};

static struct node node_of(struct conn *c)
{
    const struct client_end *local = &conn_client(c)->local;
    struct node n = {.port = local->is_unix ? server_port(conn_server(c)) : local->port};

    resp_node_id(c, n.id);
    client_end_host(local, n.host);
    return n;
}

static void resp_reply_slots(struct conn *c)
{
    const struct node n = node_of(c);

    resp_reply_array(c, 1);
    resp_reply_array(c, 3);
    resp_reply_int(c, 0);
    resp_reply_int(c, SLOTS - 1);
    resp_reply_array(c, 4);
    resp_reply_text(c, n.host);
    resp_reply_int(c, n.port);
    resp_reply_text(c, n.id);
    resp_reply_array(c, 0);
}

static void resp_reply_shards(struct conn *c)
{
    const struct node n = node_of(c);

    resp_reply_array(c, 1);
    resp_reply_pairs(c, 2);
    resp_reply_text(c, "slots");
    resp_reply_array(c, 2);
    resp_reply_int(c, 0);
    resp_reply_int(c, SLOTS - 1);
    resp_reply_text(c, "nodes");
    resp_reply_array(c, 1);
    resp_reply_pairs(c, 7);
    resp_reply_pair(c, "id", n.id);
    resp_reply_text(c, "port");
    resp_reply_int(c, n.port);
    resp_reply_pair(c, "ip", n.host);
    resp_reply_pair(c, "endpoint", n.host);
    resp_reply_pair(c, "role", "master");
    resp_reply_text(c, "replication-offset");
    resp_reply_int(c, 0);
    resp_reply_pair(c, "health", "online");
}

static void resp_reply_nodes(struct conn *c)
{
    const struct node n = node_of(c);
    char line[256];

    (void)snprintf(line, sizeof line, "%s %s:%d@%d myself,master - 0 0 1 connected 0-%d\n", n.id,
                   n.host, n.port, n.port + 10000, SLOTS - 1);
    resp_reply_text(c, line);
}

static void resp_reply_cluster_info(struct conn *c)
{
    resp_reply_text(c, "cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"
                       "cluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\n"
                       "cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n"
                       "cluster_current_epoch:1\r\ncluster_my_epoch:1\r\n");
}

static void resp_reply_my_id(struct conn *c)
{
    resp_reply_text(c, node_of(c).id);
}

/* ---- CLUSTER --------------------------------------------------------------------------------- */

static bool cluster_replies(struct conn *c, struct weir__slice what)
{
    static const struct {
        const char *name;
        void (*reply)(struct conn *c);
    } ROWS[] = {{"SLOTS", resp_reply_slots},
                {"SHARDS", resp_reply_shards},
                {"NODES", resp_reply_nodes},
                {"INFO", resp_reply_cluster_info},
                {"MYID", resp_reply_my_id}};

    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (resp_word_is(what, ROWS[i].name)) {
            ROWS[i].reply(c);
            return true;
        }
    return false;
}

void resp_run_cluster(struct conn *c, struct resp_words w)
{
    const struct weir__slice what = w.word[1];

    if (w.n == 2 && cluster_replies(c, what))
        return;
    if (resp_word_is(what, "KEYSLOT") && w.n == 3)
        resp_reply_int(c, crc16(hash_tag_of(w.word[2])) % SLOTS);
    else if (resp_word_is(what, "COUNTKEYSINSLOT") && w.n == 3)
        resp_reply_int(c, 0); /* keys are not stored by name */
    else if ((resp_word_is(what, "GETKEYSINSLOT") && w.n == 4) ||
             ((resp_word_is(what, "REPLICAS") || resp_word_is(what, "SLAVES")) && w.n == 3))
        resp_reply_array(c, 0);
    else
        resp_reply_no_form(c, w,
                           "SLOTS, SHARDS, NODES, INFO, MYID, KEYSLOT key, COUNTKEYSINSLOT slot, "
                           "GETKEYSINSLOT slot count or REPLICAS id");
}
