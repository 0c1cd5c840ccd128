/* The keys of the configuration file that have a form of their own. All other keys are options of
 * `weir serve` with the same name: the caller of config_open hands them over. */
#include "config/config.h"

#define STORE_EXPECTED "memory, file:/path, redis://host:port, redis+unix:/path"

const struct config_key CONFIG_FORMS[] = {
    {"include", CONFIG_FORM, .times = CONFIG_FILES, .live = true,
     .expected = "a file, or a pattern such as limits.d/*.yaml",
     .help = "files with more limits, beside this file: a path, a pattern such as limits.d/*.yaml, "
             "or a list of them"},
    {"listen", CONFIG_FORM, .times = 16, .expected = "HOST:PORT, [HOST]:PORT, :PORT or unix:/path",
     .usual = "127.0.0.1:7311",
     .help = "addresses that accept connections: one, or a list; each a text or a map"},
    {"listen.address", CONFIG_WORDS, .expected = "HOST:PORT, [HOST]:PORT, :PORT or unix:/path",
     .help = "the address, where an item of the list is a map"},
    {"listen.socket-mode", CONFIG_WORDS, .expected = "permissions in octal, such as 0660",
     .help = "permissions of the Unix socket, as --socket-mode"},
    {"listen.socket-group", CONFIG_WORDS, .expected = "the name of a group",
     .help = "group of the Unix socket, as --socket-group"},
    {"listen.role", CONFIG_CHOICE, .words = "clients|admin|metrics",
     .expected = "clients, admin or metrics", .usual = "what no other listener has the role for",
     .help = "what the listener is for. admin: everything, as --admin-listen; metrics: watching "
             "only, as --metrics-listen; clients: not administration"},
    {"listen.tls", CONFIG_YES_NO, .expected = "true or false",
     .usual = "true with tls-cert, but for Unix sockets",
     .help = "whether the listener speaks TLS, as tls:// and plain:// before the address"},
    {"store", CONFIG_WORDS, .expected = STORE_EXPECTED ", or a name in stores", .usual = "memory",
     .help = "the daemon's own store: a URL as for --store, or a name in stores"},
    {"stores", CONFIG_FORM, .expected = "names of stores, each with its URL",
     .help = "stores that limits name: NAME: URL, or NAME: a map"},
    {"stores.NAME.url", CONFIG_WORDS, .expected = STORE_EXPECTED, .help = "the URL"},
    {"stores.NAME.password-file", CONFIG_WORDS, .expected = "an absolute path",
     .help = "a file with the password of a Redis, read again each second"},
    {"stores.NAME.password-env", CONFIG_WORDS, .expected = "the name of a variable",
     .help = "a variable of the environment with the password of a Redis"},
    {"limits", CONFIG_FORM, .live = true, .expected = "names of limits, each with its text",
     .help = "named limits: NAME: LIMIT, or NAME: a map"},
    {"limits.NAME.limit", CONFIG_WORDS, .live = true,
     .expected = "a limit such as 'token-bucket 10/s burst=20'", .help = "the limit"},
    {"limits.NAME.store", CONFIG_WORDS, .live = true,
     .expected = "a name in stores, or a store's URL", .usual = "the daemon's own store",
     .help = "the store of its keys: a name in stores, or a URL; store= in the text is the same"},
    {"overrides", CONFIG_FORM, .live = true, .expected = "names of limits, each with a map",
     .help = "keys with numbers of their own, by the name of their limit: a map with keys and "
             "prefixes"},
    {"overrides.NAME.keys", CONFIG_FORM, .live = true,
     .expected = "a map of keys, each with its limit",
     .help = "KEY: LIMIT, of the same algorithms as the limit"},
    {"overrides.NAME.prefixes", CONFIG_FORM, .live = true,
     .expected = "a map of prefixes, each with a limit",
     .help = "PREFIX: LIMIT, for every key that begins so; a key's own wins, then the longest "
             "prefix"},
    {"lists", CONFIG_FORM, .live = true, .expected = "names of limits, each with a map",
     .help = "keys that a limit always allows or denies, by the name of the limit: a map with "
             "allow and deny"},
    {"lists.NAME.allow", CONFIG_FORM, .live = true,
     .expected = "a key, an address or a network, or a list of them",
     .help = "keys, addresses and networks that pass uncounted: one, or a list"},
    {"lists.NAME.deny", CONFIG_FORM, .live = true,
     .expected = "a key, an address or a network, or a list of them",
     .help = "keys, addresses and networks that are refused: one, or a list; deny wins over "
             "allow"},
    {"rules", CONFIG_FORM, .live = true, .expected = "a list of rules",
     .help =
         "which limits a request is counted under, and by which keys: a list of maps, each with "
         "match and apply; docs/guide/rules.md"},
    {"rules.name", CONFIG_WORDS, .live = true, .expected = "a name for answers and messages",
     .usual = "its number, #1 the first", .help = "the name of the rule in answers"},
    {"rules.match", CONFIG_FORM, .live = true, .expected = "a map of conditions",
     .usual = "every request",
     .help = "conditions, all of which must hold: path, path-prefix, path-glob, method, host, ip, "
             "header.NAME, attr.NAME; each a value or a list of values, one of which must fit; * "
             "is any value"},
    {"rules.apply", CONFIG_FORM, .live = true,
     .expected = "a map with limit and key, or a list of them",
     .help = "the limits that the rule applies; a final rule may have none"},
    {"rules.apply.limit", CONFIG_WORDS, .live = true, .expected = "the name of a limit",
     .help = "a named limit"},
    {"rules.apply.key", CONFIG_WORDS, .live = true,
     .expected = "a key such as '{ip}' or '{header.x-api-key}'",
     .help = "the key: text with {ip}, {ip/BITS}, {path}, {method}, {host}, {header.NAME} and "
             "{attr.NAME}"},
    {"rules.apply.cost", CONFIG_WORDS, .live = true, .expected = "a whole number, 0 or more",
     .usual = "1", .help = "what a request takes; times its own cost, if it names one"},
    {"rules.missing", CONFIG_CHOICE, .words = "share|skip", .live = true,
     .expected = "share or skip", .usual = "share",
     .help = "if a request lacks what a key is made of: share one key, or skip the rule"},
    {"rules.final", CONFIG_YES_NO, .live = true, .expected = "true or false", .usual = "false",
     .help = "if the rule matches, no later one applies"},
    {0},
};
