/* Reading a store's password from a file or from the environment.
 *
 * What is there is the password, byte for byte, except for one newline at the end: editors and
 * `echo` write one. A file must be a regular one, so that no read can wait for another process.
 *
 * Invariant: no message contains what was read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/diag.h"
#include "redis/client/address.h"

#define NEWLINE_MOST 2 /* CR and LF */

/* One byte more than is allowed, so that a longer text is noticed. */
struct password_text {
    char at[WEIR__PASSWORD_SIZE + NEWLINE_MOST];
    size_t len;
};

static bool is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* False: errno says why. */
static bool read_all(int fd, struct password_text *text)
{
    ssize_t n;

    text->len = 0;
    do {
        n = read(fd, text->at + text->len, sizeof text->at - text->len);
        if (n < 0 && errno != EINTR)
            return false;
        text->len += n > 0 ? (size_t)n : 0;
    } while (n != 0 && text->len < sizeof text->at);
    return true;
}

static int password_of_file(const char *path, struct password_text *text, struct weir_diag *why)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = 0;

    if (fd < 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot open the password-file %s", path);
    if (!is_regular(fd))
        error = weir__diag(why, WEIR_EINVAL, "the password-file %s is not a regular file", path);
    else if (!read_all(fd, text))
        error = weir__diag_errno(why, WEIR_EIO, "cannot read the password-file %s", path);
    (void)close(fd);
    return error;
}

static int password_of_env(const char *name, struct password_text *text, struct weir_diag *why)
{
    const char *const value = getenv(name);

    if (!value)
        return weir__diag(why, WEIR_EINVAL, "password-env names the variable %s, which is not set",
                          name);
    text->len = strnlen(value, sizeof text->at);
    memcpy(text->at, value, text->len);
    return 0;
}

static void strip_newline(struct password_text *text)
{
    if (text->len == 0 || text->at[text->len - 1] != '\n')
        return;
    text->len--;
    if (text->len > 0 && text->at[text->len - 1] == '\r')
        text->len--;
}

int weir__password_read(const struct weir__address *a, char password[WEIR__PASSWORD_SIZE],
                        struct weir_diag *why)
{
    const bool file = a->password_from == WEIR__PASSWORD_FILE;
    const char *const what = file ? "the password-file" : "the variable of password-env,";
    struct password_text text;
    int error;

    if (a->password_from == WEIR__PASSWORD_URL)
        return 0;
    error = (file ? password_of_file : password_of_env)(a->password_at, &text, why);
    if (error)
        return error;
    strip_newline(&text);
    if (text.len == 0)
        return weir__diag(why, WEIR_EINVAL, "%s %s is empty", what, a->password_at);
    if (text.len >= WEIR__PASSWORD_SIZE)
        return weir__diag(why, WEIR_EINVAL, "%s %s is too long: a password has at most %d bytes",
                          what, a->password_at, WEIR__PASSWORD_SIZE - 1);
    if (memchr(text.at, '\0', text.len))
        return weir__diag(why, WEIR_EINVAL, "%s %s contains a NUL byte", what, a->password_at);
    memcpy(password, text.at, text.len);
    password[text.len] = '\0';
    return 0;
}
