/* The names in a certificate. See tls.h.
 *
 * Only names that a line of the token file can have count: 1 to 63 printable ASCII characters. So a
 * name with a NUL in it, with which one authority was tricked into signing another's name, is no
 * name here.
 */
#include <string.h>

#include <openssl/x509v3.h>

#include "server/tls/tls_openssl.h"

struct names_writer {
    char *at, *end;
};

static void names_add(struct names_writer *w, const ASN1_STRING *text)
{
    const int len = ASN1_STRING_length(text);
    const unsigned char *bytes = ASN1_STRING_get0_data(text);

    if (len < 1 || len > TOKEN_NAME_MOST || w->end - w->at < len + 2)
        return;
    for (int i = 0; i < len; i++)
        if (bytes[i] < '!' || bytes[i] > '~')
            return;
    memcpy(w->at, bytes, (size_t)len);
    w->at[len] = '\0';
    w->at += len + 1;
}

static void names_add_common(struct names_writer *w, X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = -1;

    while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0)
        names_add(w, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

static void names_add_alternative(struct names_writer *w, X509 *cert)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

        if (type == GEN_DNS || type == GEN_URI || type == GEN_EMAIL)
            names_add(w, value);
    }
    GENERAL_NAMES_free(names);
}

size_t tls_names_of(X509 *cert, char names[TLS_NAMES_ROOM])
{
    struct names_writer w = {names, names + TLS_NAMES_ROOM};

    names_add_common(&w, cert);
    names_add_alternative(&w, cert);
    *w.at = '\0';
    return (size_t)(w.at - names) + 1;
}
