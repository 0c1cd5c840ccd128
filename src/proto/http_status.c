/* The status lines of HTTP replies. */
#include "proto/http.h"

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } ROWS[] = {
        {200, "200 OK"},
        {201, "201 Created"},
        {204, "204 No Content"},
        {400, "400 Bad Request"},
        {401, "401 Unauthorized"},
        {403, "403 Forbidden"},
        {404, "404 Not Found"},
        {409, "409 Conflict"},
        {405, "405 Method Not Allowed"},
        {413, "413 Content Too Large"},
        {414, "414 URI Too Long"},
        {421, "421 Misdirected Request"},
        {422, "422 Unprocessable Content"},
        {429, "429 Too Many Requests"},
        {431, "431 Request Header Fields Too Large"},
        {501, "501 Not Implemented"},
        {503, "503 Service Unavailable"},
        {505, "505 HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (ROWS[i].status == status)
            return ROWS[i].text;
    return "500 Internal Server Error";
}
