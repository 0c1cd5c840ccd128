/* The configuration file: which one it is, and how the last reload went.
 *
 *     GET /v1/config    {"file":"/etc/weir/weir.yaml","status":"ok","loaded_at":1767323045,
 *                        "tried_at":1767323045,"reloads":3,"failures":0,"mistakes":[]}
 *
 * "status" is "ok", "bad" (the file has changed and was refused; what was loaded before is in
 * force) or "none" (there is no file).
 */
#include <stdlib.h>
#include <string.h>

#include "server/http/http_front.h"
#include "server/live/reload.h"

static void write_int(struct weir__json *j, const char *name, int64_t value)
{
    weir__json_key(j, name);
    weir__json_int(j, value);
}

static void write_mistakes(struct weir__json *j, const char *lines)
{
    weir__json_key(j, "mistakes");
    weir__json_open(j, '[');
    while (*lines) {
        const struct weir__slice line = {lines, strcspn(lines, "\n")};

        weir__json_string(j, line);
        lines += line.len + (lines[line.len] == '\n');
    }
    weir__json_close(j, ']');
}

void http_config(const struct http_call *call)
{
    struct reload_status r = {.mistakes = NULL};
    const bool has = server_reload_status(conn_server(call->conn), &r);
    struct http_page page;
    struct weir__json j = http_page_json(&page);

    weir__json_open(&j, '{');
    if (has) {
        weir__json_key(&j, "file");
        weir__json_text(&j, r.file);
    }
    weir__json_key(&j, "status");
    weir__json_text(&j, !has ? "none" : r.good ? "ok" : "bad");
    if (has) {
        write_int(&j, "loaded_at", r.loaded_at_s);
        write_int(&j, "tried_at", r.tried_at_s);
        write_int(&j, "reloads", (int64_t)r.reloads);
        write_int(&j, "failures", (int64_t)r.failures);
        write_mistakes(&j, r.mistakes);
    }
    weir__json_close(&j, '}');
    http_page_reply(call, 200, &page);
    free(r.mistakes);
}
