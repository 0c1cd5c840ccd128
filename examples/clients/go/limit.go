// Package limit asks weir before each request: http.ListenAndServe(":8080", limit.Handler(mux, "api", nil, false))
package limit

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

var (
	weir   = "http://127.0.0.1:7311"
	client = http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	fields = []string{"RateLimit", "RateLimit-Policy", "Retry-After"}
)

func init() {
	if from := os.Getenv("WEIR"); from != "" {
		weir = from
	}
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// Address is the client's address, without its port.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Handler limits what next serves, by a key of the request, or the client's address if key is nil.
// Without weir requests pass, or are refused with 503 if closed.
func Handler(next http.Handler, name string, key func(*http.Request) string, closed bool) http.Handler {
	if key == nil {
		key = Address
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := key(r)
		// Not with the context of r: a client that goes away would be no answer, and pass.
		ask, err := http.NewRequest("GET", weir+"/v1/auth/"+name, nil)
		if err != nil || strings.IndexFunc(who, notPrintable) >= 0 {
			http.Error(w, fmt.Sprintf("weir: not a key for a header field: %q", who), 500)
			return
		}
		ask.Header.Set("X-Forwarded-For", who)
		answer, err := client.Do(ask)
		if err != nil && !closed {
			next.ServeHTTP(w, r)
			return
		}
		if err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "try again later", 503)
			return
		}
		answer.Body.Close()
		for _, field := range fields {
			if value := answer.Header.Get(field); value != "" {
				w.Header().Set(field, value)
			}
		}
		switch answer.StatusCode {
		case 204:
			next.ServeHTTP(w, r)
		case 429, 503:
			http.Error(w, "try again later", answer.StatusCode)
		default:
			http.Error(w, fmt.Sprintf("weir: %d for the limit %s", answer.StatusCode, name), 500)
		}
	})
}
