// The handler for net/http, in front of a handler that says hello.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"limit"
)

func main() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	handler := limit.Handler(hello, os.Args[2], nil, os.Args[3] == "1")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "[" + lines.Text() + "]:1"
		got := httptest.NewRecorder()
		handler.ServeHTTP(got, r)
		fmt.Println(strings.Join([]string{fmt.Sprint(got.Code), got.Header().Get("RateLimit"),
			got.Header().Get("Retry-After"), strings.TrimSpace(got.Body.String())}, "|"))
	}
}
