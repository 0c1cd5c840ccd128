/* Keeps arrivals in a temporary file. */
#include "sim/advise/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spool {
    FILE *file;
    int64_t n;
};

/* A file without a name. */
static FILE *spool_file(void)
{
    const char *const folder = getenv("TMPDIR");
    char path[4096];
    FILE *file;
    int fd;

    if (snprintf(path, sizeof path, "%s/weir-XXXXXX", folder && *folder ? folder : "/tmp") >=
        (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    fd = mkstemp(path);
    if (fd < 0)
        return NULL;
    (void)unlink(path);
    file = fdopen(fd, "w+b");
    if (!file)
        (void)close(fd);
    return file;
}

struct spool *spool_open(struct sim_error *error)
{
    struct spool *s = calloc(1, sizeof *s);

    if (s)
        s->file = spool_file();
    if (s && s->file)
        return s;
    (void)sim_fail(error, "cannot make a temporary file: %s", strerror(errno));
    free(s);
    return NULL;
}

void spool_close(struct spool *s)
{
    (void)fclose(s->file);
    free(s);
}

bool spool_add(struct spool *s, const struct arrival *a, struct sim_error *error)
{
    s->n++;
    return fwrite(a, sizeof *a, 1, s->file) == 1 ||
           sim_fail(error, "cannot write a temporary file: %s", strerror(errno));
}

int64_t spool_count(const struct spool *s)
{
    return s->n;
}

bool spool_seek(struct spool *s, int64_t number, struct sim_error *error)
{
    return (fflush(s->file) == 0 &&
            fseeko(s->file, (off_t)(number * (int64_t)sizeof(struct arrival)), SEEK_SET) == 0) ||
           sim_fail(error, "cannot use a temporary file: %s", strerror(errno));
}

bool spool_next(struct spool *s, struct arrival *a, struct sim_error *error)
{
    if (fread(a, sizeof *a, 1, s->file) == 1)
        return true;
    if (ferror(s->file))
        (void)sim_fail(error, "cannot read a temporary file: %s", strerror(errno));
    return false;
}
