/* Many decisions in one call, and one decision on many limits.
 *
 * weir_take_many answers each request separately. It is for servers that have several requests at
 * hand, as after a read of a busy socket: one call for all is much faster than one for each.
 *
 * weir_take_all is one request under several limits: all must grant it, or none is charged. Here a
 * tenant has a limit, and each of its users a smaller one.
 */
#include <stdio.h>
#include <string.h>

#include <weir.h>

enum { REQUESTS = 9 };

/* Nine requests of three clients; each client may have two. */
static int many(struct weir *w, struct weir_diag *why)
{
    static const char *const from[REQUESTS] = {"ann", "bob", "ann", "cid", "ann",
                                               "ann", "bob", "cid", "bob"};
    struct weir_policy *per_client;
    struct weir_request rq[REQUESTS];
    struct weir_verdict v[REQUESTS];
    int err = weir_policy_set(w, "clients", "token-bucket 1/m burst=2", &per_client, why);

    if (err)
        return err;
    for (int i = 0; i < REQUESTS; i++)
        rq[i] = weir_request_of(per_client, from[i], strlen(from[i]));
    err = weir_take_many(w, rq, REQUESTS, v);
    for (int i = 0; !err && i < REQUESTS; i++)
        printf("%s: %s\n", from[i], v[i].allowed ? "granted" : "refused");
    return err;
}

/* One user of one tenant. Its key has two parts, each with its length before it. Joined by a
 * character, the tenant "a.b" with a user "c" would be the tenant "a" with a user "b.c". */
static int call(struct weir *w, struct weir_policy *tenants, struct weir_policy *users,
                const char *tenant, const char *user)
{
    const struct weir_bytes part[] = {{tenant, strlen(tenant)}, {user, strlen(user)}};
    char key[128];
    const size_t len = weir_key_join(key, sizeof key, part, 2);
    const struct weir_request rq[] = {weir_request_of(tenants, tenant, strlen(tenant)),
                                      weir_request_of(users, key, len)};
    static const char *const whose[] = {"the tenant's", "the user's"};
    struct weir_verdict v;
    int err;

    if (len > sizeof key)
        return WEIR_EINVAL; /* too long for this buffer */
    err = weir_take_all(w, rq, 2, &v);
    if (!err && v.allowed)
        printf("%s of %s: granted\n", user, tenant);
    else if (!err)
        printf("%s of %s: refused by %s limit\n", user, tenant, whose[v.which]);
    return err;
}

/* A tenant may have four, a user three: a user's refused request does not count for the tenant. */
static int all(struct weir *w, struct weir_diag *why)
{
    static const char *const user[] = {"ann", "ann", "ann", "ann", "bob", "bob"};
    struct weir_policy *tenants, *users;
    int err = weir_policy_set(w, "tenants", "token-bucket 1/m burst=4", &tenants, why);

    if (!err)
        err = weir_policy_set(w, "users", "token-bucket 1/m burst=3", &users, why);
    for (size_t i = 0; !err && i < sizeof user / sizeof user[0]; i++)
        err = call(w, tenants, users, "acme", user[i]);
    return err;
}

int main(void)
{
    struct weir *w;
    struct weir_diag why = {0, ""};
    int err = weir_open(&w, NULL, &why);

    if (!err) {
        err = many(w, &why);
        if (!err)
            err = all(w, &why);
        weir_close(w);
    }
    if (err)
        fprintf(stderr, "%s\n", why.text[0] ? why.text : weir_error_text(err));
    return err != 0;
}
