/* Fuzzes the reader of the configuration file, and what its texts mean.
 *
 * No bytes may crash it. Every mistake has a sentence and a place that the file has. A file without
 * a mistake, read again as a reload would, changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/serve_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_mistakes(const struct config *c, const char *bytes, size_t len)
{
    int lines = 2; /* the end of the last line may be blamed */

    for (size_t i = 0; i < len; i++)
        lines += bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\x85' || bytes[i] == '\xe2';
    for (size_t i = 0; i < c->mistakes && i < CONFIG_MISTAKES; i++) {
        const struct config_mistake *m = &c->mistake[i];

        if (!m->file || !m->text[0] || m->line < 0 || m->line > lines || m->column < 0 ||
            (m->line > 0 && m->column < 1))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct serve_options none;
    static const bool seen[OPTIONS_MAX];
    const char *bytes = (const char *)data;
    struct serve_file *f = serve_file_open("f", &none, seen);
    const struct config *c = f ? serve_file_read_bytes(f, bytes, size) : NULL;

    if (!c)
        abort();
    check_mistakes(c, bytes, size);
    if (c->mistakes == 0) {
        const struct serve_options *o = serve_file_options(f);

        o->source->accept(o->source);
        c = serve_file_read_bytes(f, bytes, size);
        if (!c || c->mistakes > 0)
            abort();
    }
    serve_file_close(f);
    return 0;
}
